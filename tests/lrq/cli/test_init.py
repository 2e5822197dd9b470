"""`lrq init`: creates, migrates, checks and prints the tables of a site."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

import queues
from queues.database.schema import SCHEMA
from tests.lrq.cli.command import Command


def test_init_creates_the_tables_and_may_be_repeated(lrq: Command, new_database: Callable[[], str]):
    url = new_database()
    first = lrq("init", "--database", url, "--site", "paris", "--json").json
    assert (first["site"], first["action"], first["before"], first["schema"]) == ("paris", "created", None, SCHEMA)
    second = lrq("init", "--database", url, "--site", "paris")
    assert (second.code, "the tables are there already" in second.out) == (0, True)
    assert lrq("init", "--database", url, "--json").json["action"] == "unchanged"


def test_check_refuses_an_older_schema_without_naming_the_site_again(lrq: Command, new_database: Callable[[], str]):
    url = new_database()
    lrq("init", "--database", url, "--site", "paris")
    engine = queues.create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE lrq_alembic_version SET version_num = '0001'"))
    engine.dispose()
    check = lrq("init", "--check", "--database", url)
    assert check.code == 3
    assert "run `lrq init`" in check.error


def test_the_first_init_needs_the_site(lrq: Command, new_database: Callable[[], str]):
    done = lrq("init", "--database", new_database())
    assert done.code == 1
    assert "--site" in done.error


def test_a_malformed_site_id_is_an_error(lrq: Command, new_database: Callable[[], str]):
    done = lrq("init", "--database", new_database(), "--site", "not a site")
    assert done.code == 2
    assert "is not a valid site id" in done.error


@pytest.mark.postgresql
def test_a_database_without_characters_is_one_sentence(lrq: Command, ascii_database: str):
    done = lrq("init", "--database", ascii_database, "--site", "paris")
    assert done.code == 1
    assert "has the encoding SQL_ASCII, in which texts have no characters: create it with ENCODING" in done.error


def test_the_password_of_the_database_is_not_shown(lrq: Command, new_database: Callable[[], str]):
    url = new_database()
    assert (
        lrq("init", "--database", url, "--site", "paris", "--json").json["database"]
        == lrq("init", "--check", "--json", "--database", url).json["database"]
    )


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
def test_the_sql_is_printed_without_a_database(lrq: Command, name: str):
    done = lrq("init", "--sql", "--dialect", name)
    assert (done.code, done.err) == (0, "")
    assert "CREATE TABLE lrq_site" in done.out
    assert ("PRAGMA" in done.out) == (name == "sqlite")


def test_the_sql_suits_the_configured_database(lrq: Command, new_database: Callable[[], str], dialect: str):
    done = lrq("init", "--sql", "--database", new_database())
    assert ("CREATE SEQUENCE" in done.out) == (dialect == "postgresql")


def test_check_accepts_a_database_that_fits(lrq: Command, new_database: Callable[[], str]):
    url = new_database()
    lrq("init", "--database", url, "--site", "paris")
    done = lrq("init", "--check", "--database", url)
    assert done.code == 0
    assert "fits: it belongs to site paris" in done.out
    facts = lrq("init", "--check", "--database", url, "--json").json
    assert (facts["fits"], facts["site"], facts["schema"]) == (True, "paris", SCHEMA)


def test_check_tells_the_schema_of_newer_tables_that_fit(lrq: Command, new_database: Callable[[], str]):
    url = new_database()
    lrq("init", "--database", url, "--site", "paris")
    engine = queues.create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE lrq_alembic_version SET version_num = '9999'"))
    engine.dispose()
    assert lrq("init", "--check", "--database", url).out.endswith("it belongs to site paris and has schema 9999\n")


def test_check_gives_the_reason_why_a_database_does_not_fit(lrq: Command, new_database: Callable[[], str]):
    url = new_database()
    lrq("init", "--database", url, "--site", "paris")
    for arguments in (["--site", "rome"], ["--database", new_database()]):
        done = lrq("init", "--check", "--json", "--database", url, *arguments)
        assert done.code == 3
        assert done.json["fits"] is False
        assert done.json["reason"] == done.error


def test_check_of_a_missing_file_says_that_the_database_does_not_fit(lrq: Command):
    done = lrq("init", "--check", "--database", "sqlite:///missing.db")
    assert done.code == 3
    assert "there is no database missing.db" in done.error


def test_check_of_an_unreachable_database_is_an_error(lrq: Command):
    assert lrq("init", "--check", "--database", "postgresql+psycopg://me@127.0.0.1:1/paris").code == 1


def test_init_warns_about_a_site_id_that_looks_like_a_peer(
    lrq: Command, new_database: Callable[[], str], elsewhere: Path
):
    (elsewhere / "lrq.toml").write_text('[peers]\nParis = "tcp://10.0.0.2:7400"\nlima = "tcp://10.0.0.3:7400"\n')
    done = lrq("init", "--site", "paris", "--database", new_database())
    (warning,) = done.warnings
    assert (done.code, "'Paris' and 'paris' look alike: rename one" in warning) == (0, True)
    assert lrq("init", "--site", "tokyo", "--database", new_database()).warnings == []


def test_without_a_site_no_empty_file_is_left_behind(lrq: Command, tmp_path: Path):
    file = tmp_path / "new.db"
    done = lrq("init", "--database", f"sqlite:///{file}")
    assert (done.code, done.error.startswith("no site is named")) == (1, True)
    assert list(tmp_path.iterdir()) == []
