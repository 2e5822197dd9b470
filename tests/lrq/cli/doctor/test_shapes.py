"""`lrq doctor` on tables of lrq that PostgreSQL has in another shape."""

import pytest
from sqlalchemy import Engine, text

from discovery.status import read_status
from tests.lrq.cli.command import Command
from tests.lrq.cli.doctor.test_doctor import Examined, url_of

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


def change(site: Engine, *statements: str) -> None:
    with site.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


@pytest.mark.parametrize("table", ["lrq_log_entries", "lrq_log_commits", "lrq_ticks"])
def test_a_detached_partition_is_told(lrq: Command, site: Engine, table: str) -> None:
    change(site, f"ALTER TABLE {table} DETACH PARTITION {table}_3")
    found = Examined(lrq, "--database", url_of(site), "--site", "paris")
    assert f"leave out or change rows of {table}_3, so entries may be lost" in found.problem("triggers")
    assert read_status(site).log.altering == (f"{table}_3",)


def test_columns_of_others_are_told_only_if_they_refuse_rows(lrq: Command, site: Engine) -> None:
    change(
        site,
        "ALTER TABLE lrq_sessions ADD COLUMN noted text",
        "ALTER TABLE lrq_sessions ADD COLUMN counted integer NOT NULL DEFAULT 7",
        "ALTER TABLE lrq_sessions ADD COLUMN numbered integer NOT NULL GENERATED ALWAYS AS IDENTITY",
        "ALTER TABLE lrq_sessions ADD COLUMN doubled integer NOT NULL GENERATED ALWAYS AS (counted * 2) STORED",
    )
    assert Examined(lrq, "--database", url_of(site), "--site", "paris").worst("tables")["level"] == "ok"
    change(site, "ALTER TABLE lrq_sessions ADD COLUMN mine text NOT NULL")
    found = Examined(lrq, "--database", url_of(site), "--site", "paris")
    assert "refuse its rows, because they need a value: lrq_sessions.mine" in found.problem("tables")
