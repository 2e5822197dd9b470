"""Database URLs: the databases that lrq knows, and the files of SQLite."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from queues.database import urls
from queues.errors import ConfigurationError


@pytest.mark.parametrize("text", ["sqlite:///paris.db", "sqlite://", "postgresql+psycopg://user@host/database"])
def test_the_url_of_a_known_database_is_accepted(text: str):
    assert urls.parse(text) == make_url(text)


@pytest.mark.parametrize(
    "text", ["secret", "mysql://root:secret@db/x", "", "postgresql+psycopg://root:a@b:secret@db/x"]
)
def test_any_other_url_is_refused_without_repeating_it(text: str):
    with pytest.raises(ConfigurationError, match="write a URL such as sqlite:///") as refused:
        urls.parse(text)
    assert "secret" not in str(refused.value)


def test_a_path_that_is_no_text_is_refused_with_the_remedy():
    with pytest.raises(ConfigurationError, match="rename the file or its folder"):
        urls.parse("sqlite:////data/\udcff/paris.db")


@pytest.mark.parametrize("text", ["sqlite:///why?.db", "postgresql+psycopg://host/paris?sslmode=require&sslcert"])
def test_an_option_without_a_value_is_refused_because_it_would_change_nothing_in_silence(text: str):
    with pytest.raises(ConfigurationError, match=r"write name=value, and each \? of a file's name as %3F"):
        urls.parse(text)


@pytest.mark.parametrize("text", ["sqlite:///why%3F.db", "postgresql+psycopg://shop:a?b@host/paris", "sqlite:///a.db?"])
def test_a_question_mark_that_begins_no_option_is_accepted(text: str):
    assert urls.parse(text) == make_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql+psycopg://shop:a@secret@host/paris",
        "postgresql+psycopg://shop:a@secret/b@host/paris",
        "postgresql+psycopg:///shop:secret@host/paris",
    ],
)
def test_a_password_with_an_open_at_sign_is_refused_before_a_part_of_it_counts_as_a_host(text: str):
    with pytest.raises(ConfigurationError, match="write each @ of a name or a password as %40") as refused:
        urls.parse(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["postgresql+psycopg://shop:a%40b@host/paris", "sqlite:///me@home.db"])
def test_an_at_sign_that_is_escaped_or_in_a_file_name_is_accepted(text: str):
    assert urls.parse(text) == make_url(text)


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("sqlite:///paris.db", "paris.db"),
        ("sqlite:////data/paris.db", "/data/paris.db"),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("sqlite:///file:paris.db?uri=true", None),
        ("postgresql+psycopg://host/paris", None),
    ],
)
def test_the_file_of_a_sqlite_url_is_found(text: str, file: str | None):
    assert urls.file_of(make_url(text)) == (None if file is None else Path(file))


def test_a_shared_url_names_the_same_database_in_any_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    shared = urls.shareable(make_url("sqlite:///paris.db?timeout=3"))
    assert shared == make_url(f"sqlite:///{tmp_path}/paris.db?timeout=3")
    server = make_url("postgresql+psycopg://host/paris")
    assert urls.shareable(server) == server


@pytest.mark.parametrize("text", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?uri=true"])
def test_a_database_of_one_process_cannot_be_shared(text: str):
    assert urls.shareable(make_url(text)) is None


@pytest.mark.parametrize(
    "text",
    ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true", "sqlite:///file::memory:?uri=true"],
)
def test_a_database_in_memory_is_known(text: str):
    assert urls.is_in_memory(make_url(text))


@pytest.mark.parametrize(
    "text", ["sqlite:///x.db", "sqlite:///file:x?uri=true", "postgresql+psycopg://", "postgresql+psycopg:///x"]
)
def test_no_other_database_is_in_memory(text: str):
    assert not urls.is_in_memory(make_url(text))
