"""`CopiedTables` makes tables equal to followed ones, or refuses in one sentence."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

import lrq
from lr_client.tables.copied_tables import CopiedTables
from queues.errors import ConfigurationError, InvalidNameError, ListenerError, UsageError
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.tables.changes import apply, begin_snapshot, change

ORDERS = "CREATE TABLE orders (id integer PRIMARY KEY, name text)"


def run(site: Engine, *statements: str) -> None:
    with site.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement.replace("%", "%%") if site.dialect.name != "sqlite" else statement)


def rows(site: Engine, query: str = "SELECT id, name FROM orders ORDER BY 1, 2") -> list[tuple[Any, ...]]:
    with site.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


@pytest.fixture
def orders(site: Engine) -> Engine:
    run(site, ORDERS)
    return site


@pytest.fixture
def copies() -> CopiedTables:
    return CopiedTables("orders", ["orders"])


def test_the_facade_has_the_listener():
    assert lrq.CopiedTables is CopiedTables


def test_rows_are_inserted_updated_moved_and_deleted(orders: Engine, copies: CopiedTables):
    apply(
        orders,
        copies,
        *(change("orders", row={"id": number, "name": f"tea {number}"}) for number in range(5)),
        change("orders", old={"id": 1, "name": "tea 1"}, row={"id": 1, "name": "mate"}),
        change("orders", old={"id": 2, "name": "tea 2"}, row={"id": 7, "name": "tea 2"}),
        change("orders", old={"id": 3, "name": "tea 3"}),
        change("orders", old={"id": 4, "name": "tea 4"}),
        change("orders", row={"id": 4, "name": "100 % 'new'"}),
    )
    assert rows(orders) == [(0, "tea 0"), (1, "mate"), (4, "100 % 'new'"), (7, "tea 2")]


def test_a_repeated_change_and_a_missing_row_give_the_same_rows(orders: Engine, copies: CopiedTables):
    update = change("orders", old={"id": 1, "name": "a"}, row={"id": 1, "name": "b"})
    for _ in range(2):
        apply(orders, copies, update, change("orders", old={"id": 2, "name": "gone"}))
    assert rows(orders) == [(1, "b")]


def test_changes_that_meet_in_another_unique_column_keep_their_order(site: Engine, copies: CopiedTables):
    run(site, "CREATE TABLE orders (id integer PRIMARY KEY, name text UNIQUE)")
    apply(
        site,
        copies,
        change("orders", row={"id": 1, "name": "x"}),
        change("orders", row={"id": 2, "name": "y"}),
        change("orders", old={"id": 1, "name": "x"}, row={"id": 1, "name": "z"}),
        change("orders", old={"id": 2, "name": "y"}, row={"id": 2, "name": "x"}),
        change("orders", old={"id": 1, "name": "z"}, row={"id": 1, "name": "y"}),
        change("orders", old={"id": 2, "name": "x"}),
        change("orders", row={"id": 3, "name": "x"}),
    )
    assert rows(site) == [(1, "y"), (3, "x")]


def test_tables_with_foreign_keys_get_their_changes_in_order(site: Engine):
    run(
        site,
        ORDERS,
        "CREATE TABLE items (id integer PRIMARY KEY, name text, of integer REFERENCES orders)",
    )
    apply(
        site,
        CopiedTables("orders", ["orders", "items"]),
        change("orders", row={"id": 1, "name": "a"}),
        change("items", row={"id": 1, "name": "i", "of": 1}),
        change("orders", row={"id": 2, "name": "b"}),
        change("items", old={"id": 1, "name": "i", "of": 1}, row={"id": 1, "name": "i", "of": 2}),
        change("orders", old={"id": 1, "name": "a"}),
    )
    assert rows(site) == [(2, "b")]
    assert rows(site, "SELECT id, of FROM items") == [(1, 2)]


def test_a_trigger_of_a_copy_sees_each_change(site: Engine, copies: CopiedTables):
    run(site, ORDERS, "CREATE TABLE history (id integer, name text)")
    if site.dialect.name == "sqlite":
        body = "BEGIN INSERT INTO history VALUES (NEW.id, NEW.name); END"
        run(
            site,
            f"CREATE TRIGGER keep_new AFTER INSERT ON orders {body}",
            f"CREATE TRIGGER keep AFTER UPDATE ON orders {body}",
        )
    else:
        run(
            site,
            "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN INSERT INTO history VALUES (NEW.id, NEW.name); RETURN NULL; END $$",
            "CREATE TRIGGER keep AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION keep()",
        )
    apply(site, copies, *(change("orders", row={"id": 1, "name": name}) for name in "abc"))
    assert rows(site, "SELECT name FROM history ORDER BY name") == [("a",), ("b",), ("c",)]


def test_a_trigger_that_leaves_rows_out_is_refused(orders: Engine, copies: CopiedTables):
    if orders.dialect.name == "sqlite":
        run(orders, "CREATE TRIGGER mine BEFORE INSERT ON orders BEGIN SELECT RAISE(IGNORE); END")
    else:
        run(
            orders,
            "CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
            "CREATE TRIGGER mine BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION mine()",
        )
    with pytest.raises(ListenerError, match=r"a trigger or rule that is not of lrq left rows out of .*orders"):
        apply(orders, copies, change("orders", row={"id": 1, "name": "a"}))


def test_a_table_of_keys_only_takes_a_row_twice(site: Engine):
    run(site, "CREATE TABLE pairs (a integer, b integer, PRIMARY KEY (b, a))")
    copies = CopiedTables("orders", ["pairs"])
    for _ in range(2):
        apply(site, copies, change("pairs", row={"a": 1, "b": 2}), change("pairs", row={"a": 2, "b": 2}))
    apply(site, copies, change("pairs", old={"a": 2, "b": 2}))
    assert rows(site, "SELECT a, b FROM pairs") == [(1, 2)]


def test_columns_of_the_copy_alone_keep_their_values_and_generated_ones_are_made(site: Engine, copies: CopiedTables):
    run(
        site,
        "CREATE TABLE orders (id integer PRIMARY KEY, name text, twice integer GENERATED ALWAYS AS (id * 2) STORED, "
        "seen text DEFAULT 'no')",
    )
    row = {"id": 1, "name": "a", "twice": 99}
    apply(site, copies, change("orders", row=row))
    run(site, "UPDATE orders SET seen = 'yes'")
    apply(site, copies, change("orders", old=row, row=row | {"name": "b"}))
    assert rows(site, "SELECT name, twice, seen FROM orders") == [("b", 2, "yes")]


def test_names_that_sql_must_quote(site: Engine):
    table = '"the %s ""table"""'
    run(site, f'CREATE TABLE {table} ("the %s ""key""" integer PRIMARY KEY, "select" text)')
    copies = CopiedTables("orders", {"public.orders": table})
    key = 'the %s "key"'
    apply(site, copies, *(change("public.orders", row={key: number, "select": "a"}) for number in (1, 2)))
    apply(site, copies, change("public.orders", old={key: 1, "select": "a"}))
    assert rows(site, f"SELECT * FROM {table}") == [(2, "a")]


def test_a_copy_may_have_another_name_and_a_table_may_be_left_out(orders: Engine):
    copies = CopiedTables("orders", {"public.sales": "orders", "public.audit": None})
    apply(orders, copies, change("public.sales", row={"id": 1, "name": "a"}), change("public.audit", row={"id": 1}))
    assert rows(orders) == [(1, "a")]


def test_a_table_that_is_not_named_is_refused_and_nothing_is_written(orders: Engine, copies: CopiedTables):
    with pytest.raises(ListenerError) as refusal:
        apply(orders, copies, change("orders", row={"id": 1, "name": "a"}), change("public.users", row={"id": 1}))
    assert str(refusal.value) == (
        "an entry changes public.users, which is no copied table: name the table, or give None for it"
    )
    assert rows(orders) == []


def test_a_new_column_is_refused_until_the_copy_has_it(orders: Engine, copies: CopiedTables):
    row = {"id": 1, "name": "a", "price": 5}
    apply(orders, copies, change("orders", row={"id": 1, "name": "a"}))
    with pytest.raises(
        ConfigurationError, match=r"orders.* has no column price, which rows of orders have: add the co"
    ):
        apply(orders, copies, change("orders", row=row))
    run(orders, "ALTER TABLE orders ADD COLUMN price integer")
    apply(orders, copies, change("orders", row=row))
    assert rows(orders, "SELECT name, price FROM orders") == [("a", 5)]


def test_a_copy_that_was_made_anew_is_read_again(orders: Engine, copies: CopiedTables):
    apply(orders, copies, change("orders", row={"id": 1, "name": "a"}))
    run(orders, "DROP TABLE orders", "CREATE TABLE orders (name text PRIMARY KEY, id integer)")
    with pytest.raises(Exception, match="ON CONFLICT"):
        apply(orders, copies, change("orders", row={"id": 1, "name": "a"}))
    apply(orders, copies, change("orders", row={"id": 1, "name": "a"}))
    assert rows(orders) == [(1, "a")]


@pytest.mark.parametrize(
    ("create", "sentence"),
    [
        ("CREATE TABLE other (id integer)", "there is no table orders: create it, or correct the name"),
        ("CREATE VIEW orders AS SELECT 1 AS id", "there is no table orders: create it, or correct the name"),
        ("CREATE TABLE orders (id integer, name text)", "has no primary key: give the copy the key of its rows"),
    ],
)
def test_a_copy_that_cannot_take_rows_is_refused(site: Engine, copies: CopiedTables, create: str, sentence: str):
    run(site, create)
    with site.connect() as connection, pytest.raises(ConfigurationError, match=sentence):
        copies.require_tables(connection)
    with pytest.raises(ConfigurationError, match=sentence):
        apply(site, copies, change("orders", row={"id": 1, "name": "a"}))


def test_a_table_of_lrq_is_no_copy(site: Engine):
    with (
        site.connect() as connection,
        pytest.raises(ConfigurationError, match=r"lrq_site.* is a table of lrq: copy into"),
    ):
        CopiedTables("orders", {"public.orders": "lrq_site"}).require_tables(connection)


def test_rows_without_the_key_of_the_copy_are_refused(orders: Engine, copies: CopiedTables):
    for payload in (change("orders", row={"name": "a"}), change("orders", old={"name": "a"})):
        with pytest.raises(ConfigurationError, match=r"rows of orders lack the column id, a key of .*: give the copy"):
            apply(orders, copies, payload)


def test_a_row_that_the_copy_forbids_is_refused_whole(site: Engine, copies: CopiedTables):
    run(site, "CREATE TABLE orders (id integer PRIMARY KEY, name text NOT NULL)")
    with pytest.raises(IntegrityError):
        apply(site, copies, change("orders", row={"id": 1, "name": "a"}), change("orders", row={"id": 2, "name": None}))
    assert rows(site) == []


class TestSnapshots:
    def test_a_snapshot_deletes_the_rows_of_before(self, site: Engine):
        run(
            site, ORDERS, "CREATE TABLE items (id integer PRIMARY KEY, name text, of integer REFERENCES orders)",
            "INSERT INTO orders VALUES (1, 'a')", "INSERT INTO items VALUES (1, 'i', 1)",
        )  # fmt: skip
        begin_snapshot(site, CopiedTables("orders", ["orders", "items"]))
        assert rows(site) == rows(site, "SELECT id, name FROM items") == []

    def test_one_source_never_deletes_the_rows_of_another_one(self, orders: Engine, copies: CopiedTables):
        Arrivals(orders, client="orders", source="lima").tick([change("orders", row={"id": 1, "name": "a"})])
        run(orders, "INSERT INTO orders VALUES (1, 'a')")
        with pytest.raises(ConfigurationError) as refusal:
            begin_snapshot(orders, copies)
        assert str(refusal.value) == (
            "the snapshot of paris would delete the rows of lima: "
            "give source_column, and each copy a column for the source of its rows"
        )
        assert rows(orders) == [(1, "a")]


class TestSourceColumn:
    COPIES = CopiedTables("orders", ["orders"], source_column="branch")

    @pytest.fixture
    def hub(self, site: Engine) -> Engine:
        run(site, "CREATE TABLE orders (branch text, id integer, name text, PRIMARY KEY (branch, id))")
        return site

    def test_each_source_changes_its_own_rows(self, hub: Engine):
        for source in ("paris", "lima"):
            apply(hub, self.COPIES, *(change("orders", row={"id": n, "name": source}) for n in (1, 2)), source=source)
        apply(hub, self.COPIES, change("orders", old={"id": 1, "name": "lima"}), source="lima")
        apply(hub, self.COPIES, change("orders", old={"id": 1}, row={"id": 1, "name": "mate"}), source="paris")
        query = "SELECT branch, id, name FROM orders ORDER BY 1, 2"
        assert rows(hub, query) == [("lima", 2, "lima"), ("paris", 1, "mate"), ("paris", 2, "paris")]
        begin_snapshot(hub, self.COPIES)
        assert rows(hub, query) == [("lima", 2, "lima")]

    def test_a_row_cannot_name_another_source(self, hub: Engine):
        apply(hub, self.COPIES, change("orders", row={"branch": "lima", "id": 1, "name": "a"}))
        assert rows(hub, "SELECT branch FROM orders") == [("paris",)]

    def test_two_sources_with_one_key_are_refused(self, site: Engine):
        run(site, "CREATE TABLE orders (id integer PRIMARY KEY, name text, branch text)")
        copies = CopiedTables("orders", ["orders"], source_column="branch")
        apply(site, copies, change("orders", row={"id": 1, "name": "a"}), source="lima")
        with pytest.raises(ListenerError, match=r"a row of paris has the key of another source's row in .*: ma"):
            apply(site, copies, change("orders", row={"id": 1, "name": "b"}))
        apply(site, copies, change("orders", old={"id": 1, "name": "b"}))
        assert rows(site) == [(1, "a")]

    def test_a_copy_without_the_column_is_refused(self, orders: Engine):
        with orders.connect() as connection, pytest.raises(ConfigurationError, match="has no column branch for the so"):
            self.COPIES.require_tables(connection)


def _other_order(site: Engine) -> str:
    """Return a collation by which `T` comes after `l`; empty if the database has none."""
    if site.dialect.name == "sqlite":
        return ""
    found = rows(site, "SELECT collname FROM pg_collation WHERE collprovider = 'i' ORDER BY collname LIKE 'und%' DESC")
    return f' COLLATE "{found[0][0]}"' if found else ""


class TestGreatest:
    COPIES = CopiedTables("orders", ["orders"], greatest=["version", "site"])
    QUERY = "SELECT id, name, version, site FROM orders ORDER BY 1"

    @pytest.fixture
    def shared(self, site: Engine) -> Engine:
        columns = f"id integer PRIMARY KEY, name text, version int NOT NULL, site text{_other_order(site)} NOT NULL"
        run(site, f"CREATE TABLE orders ({columns})")
        return site

    def test_a_row_is_replaced_by_greater_values_only(self, shared: Engine):
        def put(number: int, name: str, version: int, site: str) -> bytes:
            return change("orders", row={"id": number, "name": name, "version": version, "site": site})

        apply(shared, self.COPIES, put(1, "a", 2, "lima"), put(2, "a", 2, "lima"), put(3, "a", 9, "a"))
        apply(shared, self.COPIES, put(1, "b", 2, "Tokyo"), put(2, "b", 2, "tokyo"), put(3, "b", 10, "B"))
        apply(shared, self.COPIES, put(1, "c", 1, "tokyo"), put(2, "c", 2, "tokyo"), put(4, "c", 3, "a"))
        apply(shared, self.COPIES, put(4, "d", 2, "a"), put(4, "e", 4, "a"), put(4, "f", 3, "z"))
        assert rows(shared, self.QUERY) == [
            (1, "a", 2, "lima"), (2, "b", 2, "tokyo"), (3, "b", 10, "B"), (4, "e", 4, "a"),
        ]  # fmt: skip

    def test_deletes_and_snapshots_delete_nothing(self, shared: Engine):
        row = {"id": 1, "name": "a", "version": 2, "site": "lima"}
        Arrivals(shared, client="orders", source="lima").tick([b"any"])
        apply(shared, self.COPIES, change("orders", row=row), change("orders", old=row))
        begin_snapshot(shared, self.COPIES)
        assert rows(shared, self.QUERY) == [(1, "a", 2, "lima")]

    def test_columns_that_cannot_decide_are_refused(self, site: Engine):
        run(site, "CREATE TABLE orders (id integer PRIMARY KEY, version int NOT NULL, site text)")
        with (
            site.connect() as connection,
            pytest.raises(ConfigurationError, match="has no column site NOT NULL, which"),
        ):
            self.COPIES.require_tables(connection)
        copies = CopiedTables("orders", ["orders"], greatest=["version"])
        with pytest.raises(ConfigurationError, match="rows of orders lack the column version, which decides: add the"):
            apply(site, copies, change("orders", row={"id": 1}))


class TestArguments:
    @pytest.mark.parametrize("name", ["", "a b", "a.b.c", 'a"b', "1a", "a.", None, 5, "a; DROP TABLE b"])
    def test_a_malformed_table_is_refused(self, name: Any):
        with pytest.raises(UsageError, match=r"is no name of a table: write it as in SQL, such as public\.orders"):
            CopiedTables("orders", [name])

    @pytest.mark.parametrize("name", ["a", "A.b", '"a b"', '"a""b"."c.d"', "änderung", "_x$"])
    def test_names_as_sql_writes_them_are_taken(self, name: str):
        CopiedTables("orders", [name])

    def test_wrong_lists_are_refused(self):
        with pytest.raises(UsageError, match="tables is the text 'orders': give a list"):
            CopiedTables("orders", "orders")
        for tables in ([], {"a": None}):
            with pytest.raises(UsageError, match="no table is named"):
                CopiedTables("orders", tables)
        with pytest.raises(UsageError, match="source_column is ''"):
            CopiedTables("orders", ["a"], source_column="")
        for greatest in ("version", [""], [1]):
            with pytest.raises(UsageError, match="give a list of columns"):
                CopiedTables("orders", ["a"], greatest=greatest)
        with pytest.raises(UsageError, match="are two rules for one row: give one of them"):
            CopiedTables("orders", ["a"], source_column="a", greatest=["b"])
        with pytest.raises(InvalidNameError):
            CopiedTables("no client", ["a"])


class TestPostgresql:
    @pytest.fixture(params=["postgresql"])
    def dialect(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def test_rows_that_row_level_security_hides_are_refused(self, orders: Engine, copies: CopiedTables):
        run(orders, "ALTER TABLE orders ENABLE ROW LEVEL SECURITY", "ALTER TABLE orders FORCE ROW LEVEL SECURITY")
        role = f"r{id(self)}"
        with orders.connect() as connection:
            connection.exec_driver_sql(f"CREATE ROLE {role}")
            connection.exec_driver_sql(f"GRANT ALL ON orders TO {role}")
            connection.exec_driver_sql(f"SET LOCAL ROLE {role}")
            with pytest.raises(ConfigurationError, match="row-level security hides rows of orders: give the role BYPA"):
                copies.require_tables(connection)

    def test_partitions_identities_and_deferred_keys(self, site: Engine):
        run(
            site,
            "CREATE TABLE parts (id int GENERATED ALWAYS AS IDENTITY, k int PRIMARY KEY) PARTITION BY RANGE (k)",
            "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
            "CREATE TABLE deferred (k int PRIMARY KEY DEFERRABLE)",
        )
        copies = CopiedTables("orders", ["parts"])
        apply(site, copies, change("parts", row={"id": 70, "k": 1}), change("parts", row={"id": 71, "k": 2}))
        apply(site, copies, change("parts", old={"id": 70, "k": 1}, row={"id": 70, "k": 1}))
        assert rows(site, "SELECT id, k FROM parts ORDER BY 1") == [(70, 1), (71, 2)]
        with site.connect() as connection, pytest.raises(ConfigurationError, match="deferred has no primary key"):
            CopiedTables("orders", ["deferred"]).require_tables(connection)

    def test_changes_that_meet_in_a_unique_column_of_a_partition_keep_their_order(self, site: Engine):
        run(
            site,
            "CREATE TABLE parts (k int PRIMARY KEY, name text) PARTITION BY RANGE (k)",
            "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
            "CREATE UNIQUE INDEX ON parts_1 (name)",
        )
        a, b, c, d = ({"k": 1, "name": "a"}, {"k": 2, "name": "b"}, {"k": 1, "name": "c"}, {"k": 2, "name": "a"})
        copies = CopiedTables("orders", ["parts"])
        apply(site, copies, change("parts", row=a), change("parts", row=b))
        last = change("parts", old=c, row={"k": 1, "name": "b"})
        apply(site, copies, change("parts", old=a, row=c), change("parts", old=b, row=d), last)
        assert rows(site, "SELECT k, name FROM parts ORDER BY 1") == [(1, "b"), (2, "a")]


class TestSqlite:
    @pytest.fixture(params=["sqlite"])
    def dialect(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def test_a_schema_is_left_out_and_letters_are_compared_as_sqlite_does(self, orders: Engine):
        copies = CopiedTables("orders", ['public."ORDERS"'])
        apply(orders, copies, change('public."ORDERS"', row={"id": 1, "name": "a"}))
        assert rows(orders) == [(1, "a")]

    def test_values_of_postgresql_fit_the_columns(self, site: Engine):
        run(
            site,
            "CREATE TABLE kinds (id integer PRIMARY KEY, n text, f real, b blob, t boolean, j json, a text, u, x text)",
        )
        row = {
            "id": 2**70, "n": 0, "f": 0.1, "b": "\\x00ff", "t": True, "j": {"k": [1, None, "é"]}, "a": [1, 2], "u": 1.5,
            "x": "\\x00ff",
        }  # fmt: skip
        payload = change("kinds", row=row | {"id": 1}).replace(b'"n": 0', b'"n": 12345678901234567890.123456789')
        apply(site, CopiedTables("orders", ["kinds"]), payload)
        (found,) = rows(site, "SELECT * FROM kinds")
        assert found == (
            1, "12345678901234567890.123456789", 0.1, b"\0\xff", 1, '{"k":[1,null,"é"]}', "[1,2]", 1.5, "\\x00ff",
        )  # fmt: skip
        assert json.loads(found[5]) == row["j"]
