"""The migration that sends moved rows as deletes and inserts keeps followed tables, up and down."""

import json

import pytest
from sqlalchemy import Engine, text

from tests.queues.reading import Reader
from tests.queues.unordered import migrate_to

DEFINITION = "SELECT pg_get_functiondef('lrq_follow_row()'::regprocedure)"


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def definition(site: Engine) -> str:
    with site.connect() as connection:
        return str(connection.execute(text(DEFINITION)).scalar_one())


def test_a_table_is_followed_before_and_after(site: Engine, reader: Reader) -> None:
    def move(to: str) -> None:
        with site.begin() as connection:
            connection.exec_driver_sql(f"UPDATE orders SET branch = '{to}'")

    migrate_to(site, "0032")
    with site.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id int, branch text)")
        connection.exec_driver_sql("SELECT lrq_follow('orders', client => 'c', destinations_column => 'branch')")
        connection.exec_driver_sql("INSERT INTO orders VALUES (1, 'north')")
    move("south")
    migrate_to(site, "head")
    move("north")
    migrate_to(site, "0032")
    move("south")
    migrate_to(site, "head")
    assert [json.loads(row.payload)["op"] for row in reader.drain()] == [
        "insert", "update", "delete", "insert", "update",
    ]  # fmt: skip


def test_the_function_is_the_same_after_a_cycle(site: Engine) -> None:
    after = definition(site)
    migrate_to(site, "0032")
    before = definition(site)
    migrate_to(site, "head")
    assert definition(site) == after != before
    migrate_to(site, "0032")
    assert definition(site) == before


def test_a_changed_function_is_refused_with_its_name(site: Engine) -> None:
    migrate_to(site, "0032")
    changed = definition(site).replace("array_agg(DISTINCT btrim", "array_agg(btrim")
    with site.begin() as connection:
        connection.exec_driver_sql(changed.replace("%", "%%"))
    with pytest.raises(Exception, match="lrq_follow_row is not the function of lrq: restore it, then migrate again"):
        migrate_to(site, "head")
