"""`FollowedTables` gives the rows of followed tables as their inserts would be sent."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine

import lrq
from lr_client.snapshot.followed_tables import FollowedTables
from queues.database import leases
from tests.lr_client.snapshot.providing import newest, payloads_of, quick, ready, request
from tests.queues.reading import Reader
from tests.queues.send_log.test_sql_transmit_postgresql import plain
from tests.waiting import eventually

pytestmark = pytest.mark.long

KINDS = (
    "CREATE TABLE kinds (n numeric, t timestamptz, b bytea, i interval, f float8, j jsonb, a int[])",
    "SELECT lrq_follow('kinds', client => 'policy', destinations => ARRAY['tokyo'])",
    "INSERT INTO kinds VALUES (12345678901234567890.123456789, '2026-01-02 03:04:05.5+00', '\\x00ff', "
    "'1 day 2 hours', 0.1::float8 + 0.2, '{\"k\": \": %s\"}', '{1,NULL}')",
)


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reader(site: Engine) -> Reader:
    return Reader(site, leases.acquire(site, "server", "me", ttl=60))


def run(site: Engine, *statements: str) -> None:
    with plain(site) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def provided(site: Engine, to: str = "tokyo") -> list[bytes]:
    (sync_id,) = request(site, to)
    with quick(site, FollowedTables()):
        ready(site, sync_id)
    return payloads_of(site, sync_id)


def rows(payloads: list[bytes]) -> list[tuple[str, dict[str, Any]]]:
    return [(found["table"], found["row"]) for found in map(json.loads, payloads)]


def refusal(site: Engine, provider: object) -> str:
    request(site, "tokyo")
    with quick(site, provider, backoff=lambda _attempt: 3600.0):
        return eventually(lambda: newest(site).error)


def test_the_facade_has_the_provider():
    assert lrq.FollowedTables is FollowedTables


def test_a_row_has_the_bytes_of_its_insert_in_the_log(site: Engine, reader: Reader):
    run(site, *KINDS)
    with plain(site) as connection:
        name = connection.info.dbname
    run(
        site, f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'", f"ALTER DATABASE {name} SET bytea_output = 'escape'"
    )
    site.dispose()
    (sent,) = [row.payload for row in reader.drain()]
    assert provided(site) == [sent]


def test_each_followed_table_is_read_and_rows_of_before_too(site: Engine):
    run(
        site,
        "CREATE TABLE b (id int)", "INSERT INTO b VALUES (1)",
        """CREATE TABLE "A:'x" (id int)""", """INSERT INTO "A:'x" VALUES (2)""",
        "CREATE TABLE other (id int)", "INSERT INTO other VALUES (3)",
        "CREATE TABLE elsewhere (id int)", "INSERT INTO elsewhere VALUES (4)",
        "SELECT lrq_follow('b', client => 'policy', destinations => ARRAY['lima', 'tokyo'])",
        """SELECT lrq_follow('"A:''x"', client => 'policy', destinations => ARRAY['tokyo'])""",
        "SELECT lrq_follow('other', client => 'audit', destinations => ARRAY['tokyo'])",
        "SELECT lrq_follow('elsewhere', client => 'policy', destinations => ARRAY['lima'])",
    )  # fmt: skip
    assert rows(provided(site)) == [('''public."A:'x"''', {"id": 2}), ("public.b", {"id": 1})]


def test_parents_come_before_their_children(site: Engine):
    run(
        site,
        "CREATE TABLE c (id int PRIMARY KEY, self int REFERENCES c)", "INSERT INTO c VALUES (1, 1)",
        "CREATE TABLE b (id int PRIMARY KEY REFERENCES c)", "INSERT INTO b VALUES (1)",
        "CREATE TABLE a (id int REFERENCES b)", "INSERT INTO a VALUES (1)",
        "CREATE TABLE d (id int)", "INSERT INTO d VALUES (1)",
        *(f"SELECT lrq_follow('{name}', client => 'policy', destinations => ARRAY['tokyo'])" for name in "abcd"),
    )  # fmt: skip
    order = [table for table, _ in rows(provided(site))]
    assert order == ["public.c", "public.d", "public.b", "public.a"]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", ["'tokyo'", "'lima, tokyo'", "'lima'", "''", "NULL"]),
        ("text[]", ["'{tokyo}'", "'{lima,tokyo}'", "'{lima}'", "'{}'", "NULL"]),
    ],
)
def test_a_site_gets_the_rows_whose_column_names_it(site: Engine, kind: str, values: list[str]):
    run(
        site,
        f'CREATE TABLE orders (id int, "the\'sites" {kind})',
        *(f"INSERT INTO orders VALUES ({number}, {value})" for number, value in enumerate(values)),
        "SELECT lrq_follow('orders', client => 'policy', destinations_column => 'the''sites')",
    )
    assert [row["id"] for _, row in rows(provided(site))] == [0, 1]
    assert [row["id"] for _, row in rows(provided(site, "lima"))] == [1, 2]


def test_a_column_of_destinations_that_is_gone_fails_the_snapshot_instead_of_leaving_out_rows(site: Engine):
    run(
        site,
        "CREATE TABLE orders (id int, branch text)",
        "INSERT INTO orders VALUES (1, 'tokyo')",
        "SELECT lrq_follow('orders', client => 'policy', destinations_column => 'branch')",
        "ALTER TABLE orders DROP COLUMN branch",
    )
    assert refusal(site, FollowedTables()).startswith("query 1 has failed (UndefinedColumn: ")


def test_a_partitioned_table_has_the_name_of_its_entries_and_heirs_are_left_out(site: Engine, reader: Reader):
    run(
        site,
        "CREATE TABLE parts (id int) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE parent (id int)",
        "CREATE TABLE heir () INHERITS (parent)",
        "SELECT lrq_follow('parts', client => 'policy', destinations => ARRAY['tokyo'])",
        "SELECT lrq_follow('parent', client => 'policy', destinations => ARRAY['tokyo'])",
        "ALTER TABLE parts RENAME TO pieces",
        "INSERT INTO heir VALUES (3)", "INSERT INTO parent VALUES (2)", "INSERT INTO pieces VALUES (1)",
    )  # fmt: skip
    sent = rows([row.payload for row in reader.drain()])
    assert sent == [("public.parent", {"id": 2}), ("public.parts", {"id": 1})]
    assert rows(provided(site)) == sent


def test_a_client_that_follows_nothing_for_the_site_gets_no_empty_snapshot(site: Engine):
    run(
        site,
        "CREATE TABLE orders (id int)",
        "SELECT lrq_follow('orders', client => 'policy', destinations => ARRAY['lima'])",
    )
    assert refusal(site, FollowedTables()) == "client policy follows no table for tokyo: run lrq follow with that site"


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
class TestSqlite:
    def test_each_followed_table_is_read_parents_first(self, site: Engine):
        with site.begin() as connection:
            for statement in (
                "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)",
                "INSERT INTO orders VALUES (1, ':a %')",
                "CREATE TABLE items (id INTEGER REFERENCES orders, branch TEXT)",
                "INSERT INTO items VALUES (1, 'lima, tokyo'), (2, 'lima'), (3, NULL)",
            ):
                connection.exec_driver_sql(statement)
            lrq.follow_table(connection, "orders", client="policy", destinations=["tokyo"])
            lrq.follow_table(connection, "items", client="policy", destinations_column="branch")
        assert rows(provided(site)) == [
            ("orders", {"id": 1, "name": ":a %"}), ("items", {"id": 1, "branch": "lima, tokyo"}),
        ]  # fmt: skip

    def test_changed_columns_fail_the_snapshot(self, site: Engine):
        with site.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE orders (id INTEGER)")
            lrq.follow_table(connection, "orders", client="policy", destinations=["tokyo"])
            connection.exec_driver_sql("ALTER TABLE orders ADD COLUMN name TEXT")
        assert refusal(site, FollowedTables()) == "the columns of orders have changed: run lrq follow again"

    def test_no_followed_table_gives_no_empty_snapshot(self, site: Engine):
        sentence = "client policy follows no table for tokyo: run lrq follow with that site"
        assert refusal(site, FollowedTables()) == sentence
