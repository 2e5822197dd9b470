"""A followed table transmits each change of its rows as JSON, with all kinds of columns and names."""

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from tests.queues.reading import Reader
from tests.queues.send_log.test_sql_transmit_postgresql import plain, role

Run = Callable[[str], None]


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(site: Engine) -> Run:
    def statements(sql: str) -> None:
        with plain(site) as connection:
            connection.execute(sql)
            connection.commit()

    return statements


def changes(reader: Reader) -> list[dict[str, Any]]:
    return [json.loads(row.payload) for row in reader.drain()]


def follow(table: str, client: str = "orders", **settings: str) -> str:
    given = "".join(f", {name} => {value}" for name, value in settings.items())
    return f"SELECT lrq_follow('{table}', client => '{client}'{given})"


NORTH = {"destinations": "ARRAY['north']"}


def test_inserts_updates_and_deletes_are_sent_with_the_row_and_the_old_row(run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    run(follow("public.orders", **NORTH))
    run("INSERT INTO orders VALUES (1, 'é\"'); UPDATE orders SET name = NULL; DELETE FROM orders")
    first, last = {"id": 1, "name": 'é"'}, {"id": 1, "name": None}
    assert changes(reader) == [
        {"table": "public.orders", "op": "insert", "row": first},
        {"table": "public.orders", "op": "update", "row": last, "old": first},
        {"table": "public.orders", "op": "delete", "old": last},
    ]
    assert reader.owed("north")
    run("BEGIN; INSERT INTO orders VALUES (2, ''); ROLLBACK")
    assert changes(reader) == []


def test_a_value_has_the_same_text_in_every_session(run: Run, reader: Reader) -> None:
    run(
        "CREATE TABLE kinds (n numeric, t timestamptz, d date, b bytea, i interval, f float8, j jsonb, a int[], "
        "u uuid, x bool, g text GENERATED ALWAYS AS (n::text) STORED)"
    )
    run(follow("kinds", **NORTH))
    run(
        "SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German'; SET bytea_output = 'escape'; "
        "SET IntervalStyle = 'iso_8601'; SET extra_float_digits = 0; "
        "INSERT INTO kinds VALUES (12345678901234567890.123456789, '2026-01-02 03:04:05.5+00', '2026-01-02', "
        "'\\x00ff', "
        "'1 day 2 hours', 0.1::float8 + 0.2, '{\"k\": [1]}', '{1,NULL}', '00000000-0000-0000-0000-000000000001', true)"
    )
    (payload,) = [row.payload for row in reader.drain()]
    assert b'"n":12345678901234567890.123456789,' in payload
    assert json.loads(payload)["row"] == {
        "n": 12345678901234567890.123456789, "t": "2026-01-02T03:04:05.5+00:00", "d": "2026-01-02", "b": "\\x00ff",
        "i": "1 day 02:00:00", "f": 0.30000000000000004, "j": {"k": [1]}, "a": [1, None],
        "u": "00000000-0000-0000-0000-000000000001", "x": True, "g": "12345678901234567890.123456789",
    }  # fmt: skip


def test_names_with_quotes_and_capitals_are_followed(run: Run, reader: Reader) -> None:
    run("""CREATE SCHEMA "a'b"; CREATE TABLE "a'b"."x""; DROP TABLE y" ("na'me" text, "Site ""s" text)""")
    run(f"""SELECT lrq_follow('"a''b"."x""; DROP TABLE y"', '{"ß" * 64}', destinations_column => 'Site "s')""")
    run("""INSERT INTO "a'b"."x""; DROP TABLE y" VALUES ('1', 'north')""")
    assert changes(reader) == [
        {"table": '''"a'b"."x""; DROP TABLE y"''', "op": "insert", "row": {"na'me": "1", 'Site "s': "north"}}
    ]
    run(f"""SELECT lrq_unfollow('"a''b"."x""; DROP TABLE y"', '{"ß" * 64}')""")


def told(change: dict[str, Any]) -> tuple[str, int]:
    return change["op"], (change.get("row") or change["old"])["id"]


@pytest.mark.parametrize("kind", ["text", "text[]"])
def test_a_column_names_the_sites_and_a_moved_row_leaves_one_and_comes_to_another(
    run: Run, reader: Reader, kind: str
) -> None:
    def sites(*names: str) -> str:
        return f"'{', '.join(names)}'" if kind == "text" else f"ARRAY{list(names)}::text[]"

    run(f"CREATE TABLE orders (id int, branch {kind})")
    run(follow("orders", destinations_column="'branch'"))
    run(f"INSERT INTO orders VALUES (1, {sites('north')}), (2, NULL), (3, {sites()}), (4, {sites('paris')})")
    run(f"INSERT INTO orders VALUES (5, {sites('paris', 'north', 'east')})")
    run(f"UPDATE orders SET branch = {sites('south')} WHERE id IN (1, 2)")
    run(f"UPDATE orders SET branch = {sites('north', 'south')} WHERE id = 5")
    run("UPDATE orders SET branch = NULL WHERE id = 1")
    run("DELETE FROM orders WHERE id IN (2, 4)")
    assert len(changes(reader)) == 10
    named = {site: [told(json.loads(each)) for each in reader.owed(site)] for site in ("north", "south", "east")}
    assert named == {
        "north": [("insert", 1), ("insert", 5), ("delete", 1), ("update", 5)],
        "south": [("insert", 1), ("insert", 2), ("insert", 5), ("delete", 1), ("delete", 2)],
        "east": [("insert", 5), ("delete", 5)],
    }


def test_several_clients_follow_and_following_again_replaces_the_settings(run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id int)")
    run(follow("orders", "one", **NORTH))
    run(follow("orders", "two", **NORTH))
    run(follow("orders", "one", destinations="ARRAY['south']"))
    run("INSERT INTO orders VALUES (1)")
    assert [row.client for row in reader.drain()] == ["one", "two"]
    assert len(reader.owed("south")) == len(reader.owed("north")) == 1
    run("SELECT lrq_unfollow('orders', 'one')")
    run("INSERT INTO orders VALUES (2)")
    assert [row.client for row in reader.drain()] == ["two"]


def test_rows_of_partitions_carry_the_name_of_the_followed_table(run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id int, name text) PARTITION BY LIST (id)")
    run("CREATE TABLE first_orders PARTITION OF orders FOR VALUES IN (1)")
    run(follow("orders", **NORTH))
    run("CREATE TABLE later_orders PARTITION OF orders FOR VALUES IN (2)")
    run("INSERT INTO orders VALUES (1, 'a'); UPDATE orders SET id = 2; UPDATE later_orders SET name = 'b'")
    found = changes(reader)
    assert [change["op"] for change in found] == ["insert", "delete", "insert", "update"]
    assert {change["table"] for change in found} == {"public.orders"}


#: The sites that get an own row, and one that a listener applies from north.
ORIGINS = {"any": ("north south", "north south"), "other": ("north south", "south"), "none": ("north south", "")}
NAMED_SITES = {"sites": {"destinations": "ARRAY['north', 'south']"}, "column": {"destinations_column": "'branch'"}}


@pytest.mark.parametrize("named", NAMED_SITES)
@pytest.mark.parametrize("origin", ORIGINS)
def test_the_origin_decides_which_sites_get_rows_that_a_listener_applies(
    run: Run, reader: Reader, origin: str, named: str
) -> None:
    run("CREATE TABLE orders (id int, branch text DEFAULT 'north,south')")
    run(follow("orders", **NAMED_SITES[named], origin=f"'{origin}'"))
    run("INSERT INTO orders VALUES (1)")
    run("SET LOCAL lrq.origin = 'north'; INSERT INTO orders VALUES (2)")
    sent = [change["row"]["id"] for change in changes(reader)]
    sites = {site: {json.loads(each)["row"]["id"] for each in reader.owed(site)} for site in ("north", "south")}
    assert [" ".join(site for site in sites if number in sites[site]) for number in (1, 2)] == list(ORIGINS[origin])
    assert sent == ([1] if origin == "none" else [1, 2])


def test_a_row_whose_only_site_is_its_origin_is_not_sent(run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id int)")
    run(follow("orders", **NORTH, origin="'other'"))
    run("SET LOCAL lrq.origin = 'north'; INSERT INTO orders VALUES (1); UPDATE orders SET id = 2; DELETE FROM orders")
    assert changes(reader) == []


def test_the_setting_of_an_earlier_transaction_holds_nothing_back(site: Engine, run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id int)")
    run(follow("orders", **NORTH, origin="'none'"))
    with plain(site) as connection:
        connection.execute("SET LOCAL lrq.origin = 'north'; INSERT INTO orders VALUES (1)")
        connection.commit()
        connection.execute("INSERT INTO orders VALUES (2)")
        connection.commit()
    assert [change["row"]["id"] for change in changes(reader)] == [2]


def test_truncate_is_refused_until_the_table_is_unfollowed(site: Engine, run: Run) -> None:
    run("CREATE TABLE orders (id int)")
    run(follow("orders", **NORTH))
    with pytest.raises(psycopg.Error, match="TRUNCATE names no rows: use DELETE, or lrq_unfollow first") as raised:
        run("TRUNCATE orders")
    assert raised.value.sqlstate == "LR010"
    run("SELECT lrq_unfollow('orders', 'orders')")
    run("TRUNCATE orders")


ERRORS = [
    ("42P01", "SELECT lrq_follow('nothing', 'c', ARRAY['north'])", 'relation "nothing" does not exist'),
    ("LR009", "SELECT lrq_follow(NULL, 'c', ARRAY['north'])", "there is no such table: name the table"),
    ("LR009", "SELECT lrq_follow('shown', 'c', ARRAY['north'])", "public.shown is no table: follow the tables behind"),
    ("LR009", "SELECT lrq_follow('lrq_site', 'c', ARRAY['north'])", "public.lrq_site is a table of lrq"),
    ("LR009", "SELECT lrq_follow('orders', 'c')", "give either destinations or destinations_column"),
    ("LR009", "SELECT lrq_follow('orders', 'c', ARRAY['a'], 'branch')", "give either destinations or"),
    ("LR009", "SELECT lrq_follow('orders', 'c', NULL, 'site')", "public.orders has no column 'site'"),
    ("LR009", "SELECT lrq_follow('orders', 'c', NULL, 'id')", "the column 'id' of public.orders is integer, but"),
    ("LR009", "SELECT lrq_unfollow('orders', 'c')", "client 'c' does not follow public.orders"),
    ("LR001", "SELECT lrq_follow('orders', 'a b', ARRAY['north'])", "'a b' is not a valid client name"),
    ("LR001", "SELECT lrq_follow('orders', 'c', ARRAY['a b'])", "'a b' is not a valid site id"),
    ("LR002", "SELECT lrq_follow('orders', 'c', ARRAY[]::text[])", "name at least one destination"),
    ("LR003", "SELECT lrq_follow('orders', 'c', ARRAY['paris'])", "'paris' is this site itself"),
    ("LR009", "SELECT lrq_follow('orders', 'c', ARRAY['a'], origin => 'all')", "origin is 'all': write 'any', 'other'"),
    ("LR009", "SELECT lrq_follow('orders', 'c', ARRAY['a'], origin => NULL)", "origin is NULL: write 'any', 'other'"),
]


@pytest.mark.parametrize(("code", "call", "said"), ERRORS)
def test_an_error_of_following_says_the_remedy(run: Run, code: str, call: str, said: str) -> None:
    run("CREATE TABLE orders (id int, branch text); CREATE VIEW shown AS SELECT * FROM orders")
    with pytest.raises(psycopg.Error, match=said) as raised:
        run(call)
    assert raised.value.sqlstate == code


FOLLOWERS = ["lrq_follow", "lrq_unfollow", "lrq_follow_name", "lrq_follow_row", "lrq_refuse_truncate"]
RIGHTS = [f"GRANT EXECUTE ON FUNCTION {name} TO {{role}}" for name in [*FOLLOWERS, "lrq_check_follower"]]


def test_only_the_owner_follows_and_every_role_that_writes_is_followed(site: Engine, run: Run, reader: Reader) -> None:
    run("CREATE TABLE orders (id int)")
    with role(site, *RIGHTS, "GRANT CREATE ON SCHEMA public TO {role}", "GRANT ALL ON orders TO {role}") as name:
        with pytest.raises(psycopg.Error, match=r"only the owner of public\.orders may follow it"):
            run(f"SET ROLE {name}; {follow('orders', **NORTH)}")
        run(f"SET ROLE {name}; CREATE TABLE own (id int); {follow('own', **NORTH)}")
        run(follow("orders", **NORTH))
        run(f"SET ROLE {name}; INSERT INTO own VALUES (1); INSERT INTO orders VALUES (2)")
    assert [change["row"]["id"] for change in changes(reader)] == [1, 2]


def test_a_renamed_column_of_sites_is_named_in_the_error(run: Run) -> None:
    run("CREATE TABLE orders (id int, branch text)")
    run(follow("orders", destinations_column="'branch'"))
    run("ALTER TABLE orders RENAME branch TO site")
    with pytest.raises(psycopg.Error, match=r"public\.orders has no column 'branch' any more: follow the table again"):
        run("INSERT INTO orders VALUES (1, 'north')")


def test_a_downgrade_leaves_no_trigger_on_tables_of_the_application(site: Engine, run: Run) -> None:
    from alembic import command

    from queues.database import migrations

    run("CREATE TABLE orders (id int)")
    run(follow("orders", **NORTH))
    config = migrations.config()
    with site.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0012")
        left = connection.execute(text("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'orders'::regclass"))
        assert left.scalar_one() == 0
        connection.execute(text("INSERT INTO orders VALUES (1)"))
        with pytest.raises(DBAPIError, match="lrq_transmit"), connection.begin_nested():
            connection.execute(text("SELECT lrq_transmit('a', 'b', ARRAY['c'])"))
