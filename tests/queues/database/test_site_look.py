"""The quick look of a server's health calls a database well only if the whole check finds nothing."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, text

import queues
from queues.database import schema
from queues.database.site_look import is_well
from queues.database.transactions import reading, writing
from queues.errors import NotInitializedError, WrongSiteError
from queues.names import SiteId


def look(engine: Engine, site_id: str = "paris") -> bool:
    with reading(engine) as connection:
        return is_well(connection, SiteId(site_id))


def test_a_database_of_the_site_at_the_present_schema_is_well(site: Engine) -> None:
    assert look(site)


def test_another_site_is_not_well(site: Engine) -> None:
    assert not look(site, "tokyo")
    with pytest.raises(WrongSiteError):
        schema.require(site, site_id="tokyo")


@pytest.mark.parametrize("version", ["0001", "9999"])
def test_another_schema_is_not_well(site: Engine, version: str) -> None:
    with writing(site) as connection:
        connection.execute(text("UPDATE lrq_alembic_version SET version_num = :version"), {"version": version})
    assert not look(site)


@pytest.mark.parametrize("table", ["lrq_site", "lrq_alembic_version"])
def test_empty_tables_are_not_well(site: Engine, table: str) -> None:
    with writing(site) as connection:
        connection.execute(text(f"DELETE FROM {table}"))
    assert not look(site)


def test_missing_tables_fail_the_look(new_database: Callable[[], str]) -> None:
    engine = queues.create_engine(new_database())
    with pytest.raises(NotInitializedError):
        look(engine)
    engine.dispose()
