"""A followed table on SQLite transmits each change of its rows as JSON, in the form of PostgreSQL."""

import json
import math
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

import lrq
import queues
from lr_client.tables.following import follow_table, unfollow_table
from queues.database import dialects, leases
from queues.errors import ConfigurationError, DestinationsError, InvalidNameError, UnknownDestinationError, UsageError
from tests.queues.reading import Reader

Run = Callable[..., None]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(site: Engine) -> Run:
    def statements(*given: str) -> None:
        with site.begin() as connection:
            for statement in given:
                connection.exec_driver_sql(statement)

    return statements


@pytest.fixture
def reader(site: Engine) -> Reader:
    return Reader(site, leases.acquire(site, "server", "me", ttl=60))


def follow(site: Engine, table: str, client: str = "c", **options: Any) -> None:
    with site.begin() as connection:
        follow_table(connection, table, client=client, **(options or {"destinations": ["north"]}))


def changes(reader: Reader) -> list[dict[str, Any]]:
    return [json.loads(row.payload) for row in reader.drain()]


def test_each_change_of_a_row_is_sent_once(site: Engine, run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
    follow(site, "orders")
    run("INSERT INTO orders VALUES (1, 'a'), (2, 'b')", "UPDATE orders SET name = 'c' WHERE id = 1")
    run("UPDATE orders SET name = name", "DELETE FROM orders WHERE id = 2")
    a, b, c = ({"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 1, "name": "c"})
    assert changes(reader) == [
        {"table": "orders", "op": "insert", "row": a},
        {"table": "orders", "op": "insert", "row": b},
        {"table": "orders", "op": "update", "row": c, "old": a},
        {"table": "orders", "op": "update", "row": c, "old": c},
        {"table": "orders", "op": "update", "row": b, "old": b},
        {"table": "orders", "op": "delete", "old": b},
    ]


def test_a_change_that_is_rolled_back_is_not_sent(site: Engine, run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    follow(site, "orders")
    with site.connect() as connection:
        connection.exec_driver_sql("INSERT INTO orders VALUES (1)")
        connection.rollback()
    assert changes(reader) == []


def test_values_keep_their_meaning(site: Engine, run: Run, reader: Reader, chance: random.Random) -> None:
    run("CREATE TABLE kinds (v)")
    follow(site, "kinds")
    reals = [struct.unpack("d", chance.randbytes(8))[0] for _ in range(500)]
    texts = ["".join(chr(chance.choice([*range(1, 300), 0x2028, 0x1F600])) for _ in range(20)) for _ in range(200)]
    values: list[Any] = [
        None, 0, -(2**63), 2**63 - 1, 0.1, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1e22, "", '{"a": 1}', "\\",
        *(value for value in reals if math.isfinite(value)), *texts,
    ]  # fmt: skip
    with site.begin() as connection:
        for value in values:
            connection.exec_driver_sql("INSERT INTO kinds VALUES (?)", (value,))
    rows = reader.drain()
    assert [json.loads(row.payload)["row"]["v"] for row in rows] == values
    assert b'{"v":0.1}' in rows[4].payload


def test_bytes_and_infinities_have_the_texts_of_postgresql(site: Engine, run: Run, reader: Reader) -> None:
    run("CREATE TABLE kinds (v)")
    follow(site, "kinds")
    run("INSERT INTO kinds VALUES (x'00FF'), (x''), (9e999), (-9e999)")
    assert [change["row"]["v"] for change in changes(reader)] == ["\\x00ff", "\\x", "Infinity", "-Infinity"]


def test_a_table_of_any_names_and_of_many_columns(site: Engine, run: Run, reader: Reader) -> None:
    table = '"a \'b\' ""c"" * :d é"'
    columns = ['"NEW"', '"na\'me"', '"*/"', '"x""y:z"', *(f"c{number}" for number in range(300))]
    run(f"CREATE TABLE {table} ({', '.join(columns)}, PRIMARY KEY ({columns[0]})) WITHOUT ROWID")
    follow(site, table)
    run(f"INSERT INTO {table} ({', '.join(columns[:5])}) VALUES (1, 2, 3, 4, 5)", f"DELETE FROM {table}")
    insert, delete = changes(reader)
    assert insert["table"] == delete["table"] == table
    assert list(insert["row"])[:5] == list(delete["old"])[:5] == ["NEW", "na'me", "*/", 'x"y:z', "c0"]
    assert list(insert["row"].values()) == [1, 2, 3, 4, 5, *[None] * 299]
    with site.connect() as connection:
        assert dialects.of(connection).followed_tables(connection)[0].table == table.strip('"').replace('""', '"')


def test_generated_columns_that_are_stored_are_sent(site: Engine, run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id INTEGER, a INTEGER AS (id + 1) STORED, b INTEGER AS (id + 2))")
    follow(site, "orders")
    run("INSERT INTO orders VALUES (1)")
    assert changes(reader) == [{"table": "orders", "op": "insert", "row": {"id": 1, "a": 2}}]


def test_a_column_names_the_sites_and_a_moved_row_leaves_one_and_comes_to_another(
    site: Engine, run: Run, reader: Reader
) -> None:
    run("CREATE TABLE orders (id INTEGER, branch TEXT)")
    follow(site, "orders", destinations_column="branch")
    run("INSERT INTO orders VALUES (1, 'north'), (2, NULL), (3, ' , '), (4, 'paris'), (5, 'paris, north,east')")
    run(
        "UPDATE orders SET branch = 'south' WHERE id IN (1, 2)", "UPDATE orders SET branch = 'north,south' WHERE id = 5"
    )
    run("UPDATE orders SET branch = NULL WHERE id = 1", "DELETE FROM orders WHERE id IN (2, 4)")
    assert len(changes(reader)) == 10
    named = {
        name: [(each["op"], (each.get("row") or each["old"])["id"]) for each in map(json.loads, reader.owed(name))]
        for name in ("north", "south", "east")
    }
    assert named == {
        "north": [("insert", 1), ("insert", 5), ("delete", 1), ("update", 5)],
        "south": [("insert", 1), ("insert", 2), ("insert", 5), ("delete", 1), ("delete", 2)],
        "east": [("insert", 5), ("delete", 5)],
    }


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE orders ADD COLUMN unit TEXT",
        "ALTER TABLE orders RENAME COLUMN name TO title",
        "ALTER TABLE orders RENAME TO sales",
    ],
)
def test_changed_columns_are_refused_until_the_table_is_followed_again(
    site: Engine, run: Run, reader: Reader, change: str
) -> None:
    run("CREATE TABLE orders (id INTEGER, name TEXT)")
    follow(site, "orders")
    run("INSERT INTO orders VALUES (1, 'a')", change)
    table = "sales" if "sales" in change else "orders"
    with pytest.raises(IntegrityError, match=r"the columns of orders have changed: run lrq follow again \(LR009\)"):
        run(f"INSERT INTO {table} (id) VALUES (2)")
    with (
        site.connect() as connection,
        pytest.raises(ConfigurationError, match=f"columns of {table} have changed"),
    ):
        dialects.of(connection).followed_rows(connection, "c", "north")
    follow(site, table)
    run(f"INSERT INTO {table} (id) VALUES (3)")
    assert [each["row"]["id"] for each in changes(reader)] == [1, 3]


def test_a_new_table_with_the_former_name_of_a_followed_one(site: Engine, run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id INTEGER)")
    follow(site, "orders")
    run("ALTER TABLE orders RENAME TO sales", "CREATE TABLE Orders (id INTEGER)")
    for table in ("ORDERS", "sales"):
        follow(site, table)
    run("INSERT INTO sales VALUES (1)", "INSERT INTO orders VALUES (2)")
    assert [(each["table"], each["row"]["id"]) for each in changes(reader)] == [("sales", 1), ('"Orders"', 2)]


def test_several_clients_follow_and_following_again_replaces_the_settings(
    site: Engine, run: Run, reader: Reader
) -> None:
    run("CREATE TABLE orders (id INTEGER)")
    for client, destination in (("one", "north"), ("two", "north"), ("one", "south")):
        follow(site, "orders", client, destinations=[destination])
    run("INSERT INTO orders VALUES (1)")
    assert [row.client for row in reader.drain()] == ["one", "two"]
    assert len(reader.owed("south")) == len(reader.owed("north")) == 1
    with site.begin() as connection:
        unfollow_table(connection, "orders", client="one")
    run("INSERT INTO orders VALUES (2)")
    assert [row.client for row in reader.drain()] == ["two"]
    with site.begin() as connection, pytest.raises(UsageError, match="client one does not follow orders: correct the"):
        unfollow_table(connection, "orders", client="one")


def test_following_is_part_of_the_transaction(site: Engine, run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id INTEGER)")
    with site.connect() as connection:
        connection.exec_driver_sql("INSERT INTO orders VALUES (0)")
        follow_table(connection, "orders", client="c", destinations=["north"])
        connection.rollback()
    run("INSERT INTO orders VALUES (1)")
    assert changes(reader) == []


@pytest.mark.parametrize(
    ("table", "options", "error", "sentence"),
    [
        ("nothing", {}, UsageError, "there is no table nothing: name the table that the client follows"),
        ("shown", {}, UsageError, "shown is no table with triggers for its rows: follow the tables behind it"),
        ("found", {}, UsageError, "found is no table with triggers for its rows: follow the tables behind it"),
        ("lrq_site", {}, UsageError, "lrq_site is a table of lrq: follow tables of the application"),
        ("a b", {}, UsageError, "'a b' is no name of a table: write it as in SQL"),
        ("orders", {"destinations": ["paris"]}, UnknownDestinationError, "a destination is this site itself"),
        ("orders", {"destinations": ["a b"]}, InvalidNameError, "a b"),
        ("orders", {"destinations": "north"}, DestinationsError, "not one string"),
        ("orders", {"destinations": []}, UsageError, "give either destinations or a column that names them"),
        ("orders", {"destinations": ["a"], "destinations_column": "id"}, UsageError, "give either destinations or a"),
        ("orders", {"destinations_column": "branch"}, UsageError, "orders has no column branch: name a column with"),
        ("orders", {"destinations": ["a"], "origin": "other"}, UsageError, "SQLite knows no origin of a row: leave it"),
        ("orders", {"destinations": ["a"], "origin": "all"}, UsageError, "origin is 'all': choose any, other or none"),
        ("orders", {"destinations": ["a"], "client": "a b"}, InvalidNameError, "a b"),
    ],
)
def test_an_error_of_following_says_the_remedy(
    site: Engine, run: Run, table: str, options: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    run(
        "CREATE TABLE orders (id INTEGER)", "CREATE VIEW shown AS SELECT 1", "CREATE VIRTUAL TABLE found USING fts5 (a)"
    )
    with pytest.raises(error, match=sentence):
        follow(site, table, **options or {"destinations": ["north"]})


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    engine = lrq.create_engine(f"sqlite:///{tmp_path / 'paris.db'}")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA encoding = 'UTF-16le'")
        connection.exec_driver_sql("CREATE TABLE orders (id INTEGER)")
        connection.commit()
    lrq.initialize(engine, site_id="paris")
    with pytest.raises(UsageError, match="the file is not in UTF-8, so payloads would not be either: write triggers"):
        follow(engine, "orders")
    engine.dispose()


def test_a_row_of_a_snapshot_has_the_bytes_of_its_insert(site: Engine, run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id INTEGER PRIMARY KEY, v, branch TEXT)")
    follow(site, "orders", "all", destinations=["north", "south"])
    follow(site, "orders", "some", destinations_column="branch")
    run("INSERT INTO orders VALUES (1, 'a:b', 'north'), (2, 0.1, 'south, north'), (3, x'00', 'south'), (4, 1, NULL)")
    sent = {row.payload for row in reader.drain() if row.client == "all"}
    with site.connect() as connection:
        for client, site_id, ids in (("all", "north", [1, 2, 3, 4]), ("some", "north", [1, 2]), ("some", "lima", [])):
            (found,) = dialects.of(connection).followed_rows(connection, client, site_id)
            payloads = [str(row[0]).encode() for row in connection.execute(text(found.query), found.parameters)]
            assert [json.loads(each)["row"]["id"] for each in payloads] == ids
            assert set(payloads) <= sent
        assert dialects.of(connection).followed_rows(connection, "all", "lima") == []


def test_the_triggers_end_with_the_tables_of_lrq(site: Engine, run: Run) -> None:
    run("CREATE TABLE orders (id INTEGER)")
    follow(site, "orders")
    with site.begin() as connection:
        queues.downgrade(connection)
    run("INSERT INTO orders VALUES (1)")


def test_the_facade_has_the_functions():
    assert (lrq.follow_table, lrq.unfollow_table) == (follow_table, unfollow_table)
