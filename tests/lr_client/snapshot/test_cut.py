"""The pinned cut hides later commits, and its position describes its contents exactly."""

import threading
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from lr_client.sender import RoutingQueueSenderClient
from lr_client.snapshot.cut import connect_at, open_cut
from queues.database import leases
from queues.database.tables.site import site as site_table
from queues.database.transactions import writing
from queues.errors import NotInitializedError, SnapshotFailedError
from queues.positions import Position, Visibility
from tests.queues.reading import Reader

pytestmark = pytest.mark.long

client = RoutingQueueSenderClient("policy")


@pytest.fixture
def app(site: Engine) -> Engine:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE airports (id INTEGER PRIMARY KEY, name TEXT)"))
    return site


def add(engine: Engine, number: int) -> str:
    """Write a row and transmit an entry for it, in one transaction; return the token."""
    with Session(engine) as session, session.begin():
        session.execute(text("INSERT INTO airports VALUES (:id, 'x')"), {"id": number})
        return str(client.transmit_log_entry_message(session, b"%d" % number, ["tokyo"]))


def names(connection: sqlalchemy.Connection) -> list[int]:
    return list(connection.execute(text("SELECT id FROM airports ORDER BY id")).scalars())


def reader(engine: Engine) -> Reader:
    lease = leases.acquire(engine, "server", "me", ttl=60)
    assert lease is not None
    return Reader(engine, lease)


def test_rows_committed_after_the_cut_are_not_read(app: Engine) -> None:
    add(app, 1)
    with open_cut(app) as cut:
        add(app, 2)
        with cut.connect() as first, cut.connect() as second:
            assert names(first) == names(second) == [1]


def test_base_and_visibility_together_cover_exactly_the_rows_in_the_cut(app: Engine) -> None:
    log = reader(app)
    add(app, 1)
    log.drain()
    add(app, 2)  # committed, but in no tick yet
    slow = Session(app)
    if app.dialect.name == "postgresql":  # begun before the cut, committed after it
        slow.execute(text("INSERT INTO airports VALUES (3, 'slow')"))
        client.transmit_log_entry_message(slow, b"3", ["tokyo"])
    with open_cut(app) as cut:
        if app.dialect.name == "postgresql":
            slow.commit()
        add(app, 4)
        with cut.connect() as connection:
            shown = names(connection)
        assert log.last is not None
        assert (cut.base.branch, cut.base.seq) == (log.last.branch, log.last.end_seq)
        mark = Visibility.parse(cut.base.cut)
    slow.close()
    later = log.drain()
    not_covered = [int(row.payload) for row in later if not mark.covers(row.transaction, 0)]
    covered = [int(row.payload) for row in later if mark.covers(row.transaction, 0)]
    assert (shown, covered) == ([1, 2], [2])
    assert sorted(not_covered) == ([3, 4] if app.dialect.name == "postgresql" else [4])


def test_every_row_is_either_in_the_cut_or_after_it_under_constant_writing(app: Engine) -> None:
    stop = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            written += 1
            add(app, written)

    writer = threading.Thread(target=write)
    log = reader(app)
    add(app, 0)
    log.drain()
    writer.start()
    try:
        for _ in range(5):
            with open_cut(app) as cut, cut.connect() as connection:
                shown = set(names(connection))
                log.drain()
                mark = Visibility.parse(cut.base.cut)
                # The sink will have the snapshot, then the log after its base without the rows that the cut covers.
                rows = [(g.tick.start_seq + n + 1, row) for g in log.groups for n, row in enumerate(g.rows or [])]
                sent = {
                    int(row.payload) for seq, row in rows if seq > cut.base.seq and not mark.covers(row.transaction, 0)
                }
                everything = {int(row.payload) for _, row in rows}
                assert not shown & sent
                assert shown | sent == everything
    finally:
        stop.set()
        writer.join()


def test_the_base_before_the_first_tick_is_the_start_of_the_branch(app: Engine) -> None:
    with app.connect() as connection:
        branch = connection.execute(sqlalchemy.select(site_table.c.branch)).scalar_one()
    with open_cut(app) as cut:
        assert cut.base == Position(branch, 0, cut.base.cut)


def test_a_closed_cut_cannot_be_read(app: Engine) -> None:
    with open_cut(app) as cut:
        pass
    with pytest.raises(SnapshotFailedError, match="closed"), cut.connect():
        pass
    with pytest.raises(SnapshotFailedError, match="closed"), connect_at(app, "no such cut'"):
        pass


CHANGES = {
    "emptied": ["TRUNCATE airports"],
    "filled anew": ["TRUNCATE airports", "INSERT INTO airports VALUES (9, 'new')"],
    "rewritten": ["ALTER TABLE airports ALTER COLUMN name TYPE VARCHAR(9) USING upper(name)"],
    "created anew": ["DROP TABLE airports", "CREATE TABLE airports (id INTEGER PRIMARY KEY, name TEXT)"],
    "swapped": [
        "CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT)",
        "ALTER TABLE airports RENAME TO former",
        "ALTER TABLE other RENAME TO airports",
    ],
}


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_was_changed_between_the_cut_and_its_reading_is_reported(app: Engine, change: str) -> None:
    add(app, 1)
    with open_cut(app) as cut:
        with app.begin() as connection:
            for statement in CHANGES[change]:
                connection.execute(text(statement))
        with (
            pytest.raises(SnapshotFailedError, match=r"the table public\.airports was emptied"),
            cut.connect() as reading,
        ):
            names(reading)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_table_that_swapped_its_name_before_the_cut_is_reported(app: Engine) -> None:
    with app.begin() as connection:
        connection.execute(text("CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT)"))
    with open_cut(app) as cut:
        with app.begin() as connection:
            connection.execute(text("ALTER TABLE airports RENAME TO former"))
            connection.execute(text("ALTER TABLE other RENAME TO airports"))
        with pytest.raises(SnapshotFailedError, match=r"table public\.airports"), cut.connect() as reading:
            names(reading)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_schemas_that_swapped_their_names_before_the_reading_are_reported(app: Engine) -> None:
    with app.begin() as connection:
        for schema in ("live", "next"):
            connection.execute(text(f"CREATE SCHEMA {schema}"))
            connection.execute(text(f"CREATE TABLE {schema}.rules AS SELECT 1 AS id"))
    with open_cut(app) as cut:
        with app.begin() as connection:
            connection.execute(text("ALTER SCHEMA live RENAME TO former"))
            connection.execute(text("ALTER SCHEMA next RENAME TO live"))
        with pytest.raises(SnapshotFailedError, match=r"table live\.rules was emptied"), cut.connect() as reading:
            reading.execute(text("SELECT id FROM live.rules"))


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", ['"Rules"', '"order"', '"all rules"', '"Shop"."Rules"'])
def test_a_table_whose_name_needs_quotes_is_read_at_a_cut(app: Engine, name: str) -> None:
    with app.begin() as connection:
        connection.execute(text('CREATE SCHEMA "Shop"'))
        connection.execute(text(f"CREATE TABLE {name} AS SELECT 1 AS id"))
    with open_cut(app) as cut, cut.connect() as reading:
        assert reading.execute(text(f"SELECT id FROM {name}")).scalar() == 1


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("change", ['TRUNCATE "Rules"', 'DROP TABLE "Rules"; CREATE TABLE "Rules" (id INTEGER)'])
def test_a_changed_table_whose_name_needs_quotes_is_reported(app: Engine, change: str) -> None:
    with app.begin() as connection:
        connection.execute(text('CREATE TABLE "Rules" AS SELECT 1 AS id'))
    with open_cut(app) as cut:
        with app.begin() as connection:
            for statement in change.split(";"):
                connection.execute(text(statement))
        with pytest.raises(SnapshotFailedError, match=r'table public\."Rules" was emptied'), cut.connect() as reading:
            reading.execute(text('SELECT id FROM "Rules"'))


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_temporary_table_of_the_session_is_not_reported(app: Engine) -> None:
    own = sqlalchemy.create_engine(app.url, pool_size=1, max_overflow=0)
    with own.connect() as connection:
        connection.execute(text("CREATE TEMPORARY TABLE passing AS SELECT 1 AS id"))
        connection.commit()
    with open_cut(app) as cut, connect_at(own, cut.name) as reading:
        assert reading.execute(text("SELECT id FROM passing")).scalar() == 1
    own.dispose()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_changes_that_leave_the_rows_of_the_cut_alone_are_not_reported(app: Engine) -> None:
    add(app, 1)
    with app.begin() as connection:
        connection.execute(text("CREATE TABLE days (day DATE) PARTITION BY RANGE (day)"))
        connection.execute(text("TRUNCATE airports"))
    add(app, 2)
    with open_cut(app) as cut:
        with app.begin() as connection:
            connection.execute(text("CREATE INDEX by_name ON airports (name)"))
            connection.execute(text("ALTER TABLE airports ADD COLUMN more TEXT"))
            connection.execute(text("CREATE TABLE new_day PARTITION OF days DEFAULT"))
        with app.connect() as connection:
            connection.execute(text("TRUNCATE days"))
            connection.rollback()
        with cut.connect() as reading:
            assert names(reading) == [2]
            assert reading.execute(text("SELECT count(*) FROM days")).scalar() == 0
            assert reading.execute(text("SELECT count(*) FROM pg_class")).scalar()


PARTITIONED = [
    "CREATE TABLE days (day INTEGER) PARTITION BY RANGE (day)",
    "CREATE TABLE early PARTITION OF days FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (day)",
    "CREATE TABLE first PARTITION OF early FOR VALUES FROM (0) TO (5)",
    "CREATE TABLE late PARTITION OF days FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE apart (day INTEGER)",
    "INSERT INTO days VALUES (1), (11)",
    "INSERT INTO apart VALUES (21)",
    "CREATE TABLE lines (day INTEGER)",
    "CREATE TABLE more_lines () INHERITS (lines)",
    "INSERT INTO more_lines VALUES (1)",
]
DIVISIONS = {
    "DROP TABLE late": "days",
    "ALTER TABLE days DETACH PARTITION late": "days",
    "ALTER TABLE early DETACH PARTITION first": "early",
    "ALTER TABLE days ATTACH PARTITION apart FOR VALUES FROM (20) TO (30)": "days",
    "DROP TABLE more_lines": "lines",
}


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("change", "table"), DIVISIONS.items())
def test_a_table_that_got_or_lost_a_partition_between_the_cut_and_its_reading_is_reported(
    app: Engine, change: str, table: str
) -> None:
    with app.begin() as connection:
        for statement in PARTITIONED:
            connection.execute(text(statement))
    with open_cut(app) as cut:
        with app.begin() as connection:
            connection.execute(text(change))
        with (
            pytest.raises(SnapshotFailedError, match=rf"the table public\.{table} got or lost a partition"),
            cut.connect() as reading,
        ):
            reading.execute(text("SELECT count(*) FROM days, lines"))


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_partitions_that_are_as_at_the_cut_are_not_reported(app: Engine) -> None:
    with app.begin() as connection:
        for statement in PARTITIONED:
            connection.execute(text(statement))
    with open_cut(app) as cut:
        with app.begin() as connection:
            connection.execute(text("CREATE TABLE later PARTITION OF days FOR VALUES FROM (20) TO (30)"))
            connection.execute(text("INSERT INTO days VALUES (2), (12), (22)"))
            connection.execute(text("CREATE TABLE other_lines () INHERITS (lines)"))
        with cut.connect() as reading:
            assert list(reading.execute(text("SELECT day FROM days ORDER BY day")).scalars()) == [1, 11]
            assert list(reading.execute(text("SELECT day FROM lines")).scalars()) == [1]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_an_open_connection_is_checked_before_its_block_ends(app: Engine) -> None:
    add(app, 1)
    with open_cut(app) as cut:
        with app.begin() as connection:
            connection.execute(text("TRUNCATE airports"))
        with pytest.raises(SnapshotFailedError), cut.connect() as reading:  # noqa: PT012
            cut.require_unchanged()
            assert names(reading) == []
            with pytest.raises(SnapshotFailedError, match="emptied"):
                cut.require_unchanged()
        cut.require_unchanged()


def test_a_cut_is_read_only(app: Engine) -> None:
    with open_cut(app) as cut, pytest.raises(sqlalchemy.exc.DBAPIError), cut.connect() as connection:  # noqa: PT012
        connection.execute(text("DELETE FROM airports"))
        connection.commit()


def test_a_cut_of_a_database_without_tables_is_refused(new_database) -> None:
    engine = sqlalchemy.create_engine(new_database())
    with pytest.raises(NotInitializedError, match="lrq init"), open_cut(engine):
        pass
    engine.dispose()


def test_the_cut_takes_no_connection_of_the_pool(app: Engine) -> None:
    small = sqlalchemy.create_engine(app.url, pool_size=1, max_overflow=0, pool_timeout=1)
    with open_cut(small) as cut, cut.connect() as connection:
        assert names(connection) == []
    with open_cut(small), writing(small):
        pass
    small.dispose()


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_copy_is_removed_with_its_cut_and_copies_of_killed_processes_are_too(app: Engine, tmp_path: Path) -> None:
    left = tmp_path / "lrq-cut-dead"
    left.mkdir()
    (left / "held").touch()
    (left / "cut.db").write_bytes(b"x" * 100)
    with open_cut(app, folder=tmp_path) as cut, open_cut(app, folder=tmp_path) as other:
        assert not left.exists()
        assert Path(cut.name).exists()
        assert Path(other.name).exists()
    assert list(tmp_path.glob("lrq-cut-*")) == []


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_copy_of_a_cancelled_build_is_removed(app: Engine, tmp_path: Path) -> None:
    def refuse() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError), open_cut(app, folder=tmp_path, check=refuse):
        pass
    assert list(tmp_path.glob("lrq-cut-*")) == []
