"""A database with the tables of lrq and none of their rows, as from a dump of the schema alone."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, inspect, text

import queues
from queues.database import schema
from queues.errors import SchemaMismatchError

CURE = f"INSERT INTO lrq_alembic_version VALUES ('{schema.SCHEMA}')"
WORDS = f"put '{schema.SCHEMA}' into lrq_alembic_version if the dumped database had this schema"


@pytest.fixture
def emptied(site: Engine) -> Engine:
    with site.begin() as connection:
        for table in ("lrq_site", "lrq_branches", "lrq_log_head", "lrq_alembic_version"):
            connection.execute(text(f"DELETE FROM {table}"))
    return site


def upgraded(engine: Engine) -> None:
    with engine.begin() as connection:
        queues.upgrade(connection, site_id="paris")


def downgraded(engine: Engine) -> None:
    with engine.begin() as connection:
        queues.downgrade(connection)


@pytest.mark.parametrize(
    "call",
    [schema.require, lambda engine: queues.initialize(engine, site_id="paris"), upgraded, downgraded],
    ids=["require", "initialize", "upgrade", "downgrade"],
)
def test_tables_of_an_unknown_version_are_refused_with_the_cure(
    emptied: Engine, call: Callable[[Engine], object]
) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        call(emptied)
    assert WORDS in str(caught.value)
    assert inspect(emptied).has_table("lrq_alembic_version")


def test_the_cure_makes_a_new_site(emptied: Engine) -> None:
    with emptied.begin() as connection:
        connection.execute(text(CURE))
    assert queues.initialize(emptied, site_id="paris").site_id == "paris"
    assert schema.check(emptied).site_id == "paris"
