"""Followed tables of PostgreSQL and their copies, on both databases, are equal: no listener is written for that."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.orm import Session

import lrq
import queues
from tests.conftest import NewSite
from tests.system.constant_writing import written
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)]

TABLES = ("orders", "items", "kinds")
CREATE = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, version INTEGER NOT NULL)",
    "CREATE TABLE items (order_id INTEGER NOT NULL, line INTEGER NOT NULL, name TEXT, PRIMARY KEY (order_id, line))",
)
KINDS = (
    "CREATE TABLE kinds (id int PRIMARY KEY, n numeric, t timestamptz, b bytea, i interval, f float8, j jsonb, "
    "a int[], o boolean, u uuid, twice int GENERATED ALWAYS AS (id * 2) STORED)"
)
#: SQLite keeps exact numbers in a column for text only.
SQLITE_KINDS = (
    "CREATE TABLE kinds (id int PRIMARY KEY, n text, t text, b blob, i text, f real, j, a, o boolean, u, twice)"
)
VALUES = (
    "SELECT n, n * 12345678901234567890.123456789, '2026-01-02 03:04:05.5+00'::timestamptz + n * interval '1 day', "
    "decode(repeat(to_hex(n % 256), 2), 'hex'), n * interval '25 hours', sqrt(n), "
    "jsonb_build_object('%s: \"', n / 7.0), ARRAY[n, NULL], n % 3 = 0, gen_random_uuid() "
    "FROM generate_series(10, 300) AS n"
)


@pytest.fixture(params=["postgresql", "sqlite"])
def sink_dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source_dialect() -> str:
    return "postgresql"


@pytest.fixture
def world(new_site: NewSite, source_dialect: str, sink_dialect: str, tmp_path: Path) -> Iterator[World]:
    """Give a world whose source `paris` and whose other sites have their own dialects."""

    def create(name: str) -> Engine:
        if (source_dialect if name == "paris" else sink_dialect) == "postgresql":
            return new_site(name)
        engine = queues.create_engine(f"sqlite:///{tmp_path / name}.db")
        queues.initialize(engine, site_id=name)
        return engine

    with ExitStack() as stack:
        world = World(create, stack)
        yield world
        print(world.report())


def write(chance: random.Random, connection: Connection, _done: int) -> None:
    """Make random changes of orders, their items and kinds."""
    number = chance.randint(1, 300)
    for statement in chance.sample(CHANGES, chance.randint(1, 4)):
        connection.execute(text(statement), {"id": number, "other": chance.randint(1, 300)})


CHANGES = (
    "INSERT INTO orders VALUES (:id, 'new', 1) ON CONFLICT (id) DO UPDATE SET version = orders.version + 1",
    "UPDATE orders SET name = name || '\\', version = version + 1 WHERE id BETWEEN :id AND :id + 5",
    "INSERT INTO items SELECT :id, n, 'x' FROM generate_series(1, 4) AS n ON CONFLICT DO NOTHING",
    "UPDATE items SET order_id = :other, line = line + 10 * :id + (SELECT coalesce(max(line), 0) FROM items) "
    "WHERE order_id = :id",
    "DELETE FROM items WHERE order_id = :id AND line > 3",
    "DELETE FROM orders WHERE id = :id",
    "DELETE FROM kinds WHERE id = :id",
    "UPDATE kinds SET n = -n, o = NOT o WHERE id = :id",
    "UPDATE kinds SET id = -id WHERE id = :id",
)


def test_copies_equal_their_tables_after_snapshots_under_constant_writing(
    world: World, chance: random.Random, sink_dialect: str
) -> None:
    completed: list[str] = []
    errors: list[Exception] = []

    class Copies(lrq.CopiedTables):
        def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None:
            completed.append(source_id)

        def on_error(self, source_id: str, error: Exception) -> None:
            errors.append(error)

    copies = Copies("policy", [f"public.{name}" for name in TABLES])
    for site, kinds in (("paris", KINDS), ("tokyo", KINDS if sink_dialect == "postgresql" else SQLITE_KINDS)):
        for statement in (*CREATE, kinds):
            world.execute(site, statement)
    world.execute("paris", "INSERT INTO orders SELECT n, 'old', 1 FROM generate_series(1, 300) AS n")
    world.execute("paris", f"INSERT INTO kinds (id, n, t, b, i, f, j, a, o, u) {VALUES}".replace(":", "\\:"))
    for name in TABLES:
        world.execute("paris", f"SELECT lrq_follow('{name}', client => 'policy', destinations => ARRAY['tokyo'])")
    with lrq.subscribe(world.site("tokyo"), copies, poll_interval=0.05):
        with written(world.site("paris"), partial(write, chance)) as writer:
            world.link("paris", "tokyo", initial_sync="snapshot")
            world.provide("paris", lrq.FollowedTables())
            for number in range(2):
                world.request_snapshots("paris", "tokyo")
                eventually(lambda number=number: len(completed) > number, timeout=60)
                writes = writer.writes
                eventually(lambda writes=writes: writer.writes > writes + 50, timeout=60)
        for name in ("orders", "items"):
            query = f"SELECT * FROM {name} ORDER BY 1, 2"
            expected = world.execute("paris", query)
            assert len(expected) > 10
            eventually(lambda query=query, expected=expected: world.execute("tokyo", query) == expected, timeout=60)
        eventually(lambda: kinds_of(world, "tokyo", sink_dialect) == kinds_of(world, "paris", "postgresql"), timeout=60)
    assert errors == []


def kinds_of(world: World, site: str, dialect: str) -> list[Any]:
    """Return the rows with the values that both databases have."""
    time = "to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24\\:MI\\:SS')"
    array = "replace(replace(replace(a, '[', '{'), ']', '}'), 'null', 'NULL')"
    values = {
        "postgresql": f"n::text, {time}, b, i::text, f, j::text, a::text, o::int",
        "sqlite": f"n, substr(t, 1, 19), b, i, f, j, {array}, o",
    }[dialect]
    found = world.execute(site, f"SELECT id, {values}, CAST(u AS text), twice FROM kinds ORDER BY id")
    return [(*row[:6], row[6].replace(" ", ""), *row[7:]) for row in found]


def test_a_row_that_moves_between_sites_leaves_one_copy_and_comes_to_the_other(world: World, sink_dialect: str) -> None:
    for site in ("paris", "tokyo", "lima"):
        world.execute(site, "CREATE TABLE orders (id INTEGER PRIMARY KEY, branch TEXT)")
    world.execute("paris", "SELECT lrq_follow('orders', client => 'policy', destinations_column => 'branch')")
    world.link("paris", "tokyo", "lima")
    with ExitStack() as stack:
        for site in ("tokyo", "lima"):
            copies = lrq.CopiedTables("policy", ["public.orders"])
            stack.enter_context(closing(lrq.subscribe(world.site(site), copies, poll_interval=0.05)))
        world.execute("paris", "INSERT INTO orders VALUES (1, 'tokyo'), (2, 'tokyo'), (3, 'lima,tokyo')")
        world.execute("paris", "UPDATE orders SET branch = 'lima' WHERE id IN (1, 3)")
        expected = {"tokyo": [(2, "tokyo")], "lima": [(1, "lima"), (3, "lima")]}
        for site, rows in expected.items():
            query = "SELECT id, branch FROM orders ORDER BY id"
            eventually(lambda site=site, rows=rows, query=query: world.execute(site, query) == rows)


@pytest.mark.parametrize("source_dialect", ["sqlite"])
def test_copies_equal_a_table_of_sqlite_after_a_snapshot_under_constant_writing(
    world: World, chance: random.Random, source_dialect: str, sink_dialect: str
) -> None:
    completed: list[str] = []

    class Copies(lrq.CopiedTables):
        def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None:
            completed.append(source_id)

    for statement in CREATE:
        for site in ("paris", "tokyo"):
            world.execute(site, statement)
    world.execute("paris", "INSERT INTO orders VALUES (1, 'old', 1), (2, 'old', 1)")
    with world.site("paris").begin() as connection:
        for table in ("orders", "items"):
            lrq.follow_table(connection, table, client="policy", destinations=["tokyo"])
    world.link("paris", "tokyo", initial_sync="snapshot")
    world.provide("paris", lrq.FollowedTables())
    with closing(lrq.subscribe(world.site("tokyo"), Copies("policy", ["orders", "items"]), poll_interval=0.05)):
        world.request_snapshots("paris", "tokyo")
        for number in range(300):
            with world.site("paris").begin() as connection:
                for statement in chance.sample(SQLITE_CHANGES, chance.randint(1, 4)):
                    connection.execute(text(statement), {"id": chance.randint(1, 40), "name": f"né {number}"})
        eventually(lambda: completed, timeout=60)
        for name in ("orders", "items"):
            query = f"SELECT * FROM {name} ORDER BY 1, 2"
            expected = world.execute("paris", query)
            assert len(expected) > 5
            eventually(lambda query=query, expected=expected: world.execute("tokyo", query) == expected, timeout=60)


SQLITE_CHANGES = (
    "INSERT INTO orders VALUES (:id, :name, 1) ON CONFLICT (id) DO UPDATE SET version = orders.version + 1",
    "INSERT OR REPLACE INTO orders VALUES (:id, :name, 7)",
    "UPDATE orders SET name = name || '\\', version = version + 1 WHERE id BETWEEN :id AND :id + 5",
    "INSERT INTO items VALUES (:id, 1, :name), (:id, 2, NULL) ON CONFLICT DO NOTHING",
    "UPDATE items SET line = line + 10 WHERE order_id = :id",
    "DELETE FROM items WHERE order_id = :id AND line > 20",
    "DELETE FROM orders WHERE id = :id",
)
