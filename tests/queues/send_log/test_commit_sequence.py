"""The trigger that gives each PostgreSQL transaction its place in the order of commits."""

import threading

import pytest
from sqlalchemy import Connection, Engine, text

import queues
from queues.database import migrations

INSERT = text(
    "INSERT INTO lrq_log_entries (slot, client, tag_set, created_us, payload) "
    "SELECT (SELECT last_value % 8 FROM lrq_log_segment), 'policy', 1, 0, convert_to(n::text, 'UTF8') "
    "FROM generate_series(1, :rows) AS n RETURNING xid"
)


pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


def write(connection: Connection, rows: int = 1) -> int:
    return connection.execute(INSERT, {"rows": rows}).scalars().first()


def commits(engine: Engine) -> list[int]:
    """Return the transactions in the order of their commits."""
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT xid FROM lrq_log_commits ORDER BY commit_seq")).scalars())


def test_a_transaction_of_many_rows_is_sequenced_once(site: Engine):
    with site.begin() as connection:
        xid = write(connection, rows=1_000)
        write(connection)
    assert commits(site) == [xid]


def test_each_transaction_of_a_connection_is_sequenced(site: Engine):
    with site.connect() as connection:
        written = []
        for _ in range(3):
            written.append(write(connection))
            connection.commit()
    assert commits(site) == written


def test_the_order_is_that_of_commits_and_not_of_inserts(site: Engine):
    with site.connect() as early, site.connect() as late:
        first = write(early)
        second = write(late)
        late.commit()
        early.commit()
    assert commits(site) == [second, first]


def test_a_rolled_back_transaction_has_no_place(site: Engine):
    with site.connect() as connection:
        write(connection)
        connection.rollback()
    assert commits(site) == []


def test_a_transaction_has_no_place_if_its_only_savepoint_is_rolled_back(site: Engine):
    with site.begin() as connection:
        savepoint = connection.begin_nested()
        write(connection)
        savepoint.rollback()
    assert commits(site) == []


def test_rows_before_within_and_after_savepoints_share_one_place(site: Engine):
    with site.begin() as connection:
        xid = write(connection)
        with connection.begin_nested():
            assert write(connection) == xid
        undone = connection.begin_nested()
        write(connection)
        undone.rollback()
        write(connection)
    assert commits(site) == [xid]


def test_immediate_constraints_within_a_rolled_back_savepoint_do_not_lose_the_place(site: Engine):
    with site.begin() as connection:
        undone = connection.begin_nested()
        connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
        xid = write(connection)
        undone.rollback()
        write(connection)
    assert commits(site) == [xid]


def test_entries_and_their_commit_are_stored_in_the_open_segment(site: Engine):
    with site.begin() as connection:
        connection.execute(text("SELECT nextval('lrq_log_segment')"))
        write(connection)
    with site.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM lrq_log_entries_1")).scalar() == 1
        assert connection.execute(text("SELECT slot FROM lrq_log_commits")).scalars().all() == [1]


def test_a_new_log_writes_to_the_first_segment(site: Engine):
    with site.begin() as connection:
        write(connection)
        assert connection.execute(text("SELECT slot FROM lrq_log_entries")).scalars().all() == [0]


def test_the_commit_time_is_the_moment_of_the_commit(site: Engine):
    with site.begin() as connection:
        write(connection)
        after_insert = connection.execute(text("SELECT extract(epoch FROM clock_timestamp()) * 1000000")).scalar_one()
    with site.connect() as connection:
        assert connection.execute(text("SELECT committed_us FROM lrq_log_commits")).scalar_one() >= after_insert


def test_payloads_are_not_compressed_by_the_database(site: Engine):
    stored = text("SELECT relname, attstorage FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
                  "WHERE attname IN ('payload', 'block') AND relkind IN ('r', 'p')")  # fmt: skip
    with site.connect() as connection:
        found = {row.relname: row.attstorage for row in connection.execute(stored)}
    assert len(found) == 14
    assert set(found.values()) == {"e"}


def test_the_trigger_finds_its_tables_after_the_search_path_has_changed(new_database):
    url = new_database()
    admin = queues.create_engine(url)
    with admin.begin() as connection:
        connection.execute(text('CREATE SCHEMA "Own, schema"'))
    engine = queues.create_engine(url, connect_args={"options": '-csearch_path="Own,\\ schema"'})
    queues.initialize(engine, site_id="paris")
    migrations.check(engine)
    with engine.begin() as connection:
        xid = write(connection)
        connection.execute(text("SET LOCAL search_path = pg_catalog"))
    assert commits(engine) == [xid]
    with admin.connect() as connection:
        assert connection.execute(text("SELECT to_regclass('public.lrq_site')")).scalar() is None
    engine.dispose()
    admin.dispose()


def test_writers_that_wait_for_a_row_lock_are_sequenced_in_the_order_of_the_lock(site: Engine):
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE counter (n integer)"))
        connection.execute(text("INSERT INTO counter VALUES (0)"))
    locked: list[tuple[int, int]] = []

    def work() -> None:
        with site.connect() as connection:
            for _ in range(25):
                xid = write(connection)
                n = connection.execute(text("UPDATE counter SET n = n + 1 RETURNING n")).scalar_one()
                locked.append((n, xid))
                connection.commit()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert commits(site) == [xid for _, xid in sorted(locked)]
