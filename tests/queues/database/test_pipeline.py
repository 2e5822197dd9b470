"""Several statements in one message to PostgreSQL give the same answers as statements sent one by one."""

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import Connection, Engine, create_engine, exc, text

from queues.database.postgresql.answers import Answer
from queues.database.postgresql.pipeline import exchange
from queues.database.postgresql.prepared_statements import Array
from queues.database.transactions import reading, writing
from queues.errors import StoreUnavailableError
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)

Numbered = Callable[[int], str]
ADD = "INSERT INTO numbers (id, word, bits) VALUES (%(id)s, %(word)s, %(bits)s)"
ALL = "SELECT id, word, bits FROM numbers WHERE id = ANY(%(ids)s) ORDER BY id"


@pytest.fixture(
    params=["directly", "no preparing", "client-side cursors", "read committed told", "in an older transaction"]
)
def opened(request: pytest.FixtureRequest, new_database: Callable[[], str]) -> Iterator[Callable[[], Connection]]:
    """Give a function that opens a transaction whose statements go through `exchange`."""
    options: dict[str, dict[str, object]] = {
        "no preparing": {"connect_args": {"prepare_threshold": None}},
        "client-side cursors": {"connect_args": {"cursor_factory": psycopg.ClientCursor}},
        "read committed told": {"isolation_level": "READ COMMITTED"},
    }
    engine = create_engine(new_database(), **options.get(request.param, {}))
    connections: list[Connection] = []

    def open_one() -> Connection:
        connection = engine.connect()
        connections.append(connection)
        connection.begin()
        if request.param == "in an older transaction":
            connection.execute(text("SELECT 1"))
        return connection

    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE numbers (id bigint PRIMARY KEY, word text, bits bytea)"))
    yield open_one
    for connection in connections:
        connection.close()
    engine.dispose()


def row(number: int, word: str | None = None, bits: bytes | None = None) -> tuple[str, dict[str, object]]:
    return ADD, {"id": number, "word": word, "bits": bits}


def test_statements_see_the_changes_of_the_statements_before_them(opened):
    with opened() as connection:
        answers = exchange(connection, [row(1, "one", b"\x00\xff"), row(2), (ALL, {"ids": [1, 2, 3]})])
        assert answers == [Answer((), 1), Answer((), 1), Answer([(1, "one", b"\x00\xff"), (2, None, None)], 2)]


def test_changes_last_after_a_commit_and_are_gone_after_a_rollback(opened):
    with opened() as connection:
        exchange(connection, [row(1)])
        connection.rollback()
    with opened() as connection:
        exchange(connection, [row(2)])
        connection.commit()
    with opened() as connection:
        assert [found[0] for found in exchange(connection, [(ALL, {"ids": [1, 2]})])[0].rows] == [2]


def test_the_last_statements_are_committed_at_the_end_of_the_transaction_at_the_latest(opened):
    with opened() as connection:
        exchange(connection, [row(1)])
        assert exchange(connection, [row(2), (ALL, {"ids": [1, 2]})], last=True)[1].size == 2
        connection.commit()
    with opened() as connection:
        assert exchange(connection, [(ALL, {"ids": [1, 2]})], last=True)[0].size == 2
        connection.commit()
        # The connection can be used again, as after any commit.
        connection.begin()
        exchange(connection, [row(3)])
        connection.rollback()
    with opened() as connection:
        assert exchange(connection, [(ALL, {"ids": [1, 2, 3]})])[0].size == 2


def test_none_of_the_last_statements_is_committed_if_one_fails(opened):
    with opened() as connection:
        exchange(connection, [row(1)])
        with pytest.raises(exc.IntegrityError):
            exchange(connection, [row(2), row(1)], last=True)
        connection.rollback()
    with opened() as connection:
        assert exchange(connection, [(ALL, {"ids": [1, 2]})])[0].size == 0


def test_a_whole_transaction_in_one_message_is_stored_or_fails_as_a_whole(opened):
    with opened() as connection:
        with pytest.raises(exc.IntegrityError):
            exchange(connection, [row(2), row(1), row(1)], last=True)
        connection.rollback()
        connection.begin()
        answers = exchange(connection, [row(3), (ALL, {"ids": [1, 2, 3]})], last=True)
        assert answers == [Answer((), 1), Answer([(3, None, None)], 1)]
        connection.commit()
    with opened() as connection:
        assert [found[0] for found in exchange(connection, [(ALL, {"ids": [1, 2, 3]})])[0].rows] == [3]


@pytest.mark.parametrize("lost", ["set_config('synchronous_commit', 'off'%", "INSERT%", "%emit_message%"])
def test_a_whole_transaction_is_carried_out_once_if_the_server_has_lost_a_statement(opened, lost: str):
    with opened() as connection:
        exchange(connection, [row(1)], last=True)
        connection.commit()
        connection.begin()
        names = text("SELECT name FROM pg_prepared_statements WHERE statement LIKE :lost")
        for name in connection.execute(names, {"lost": f"%{lost}"}).scalars().all():
            connection.exec_driver_sql(f'DEALLOCATE "{name}"')
        connection.commit()
        connection.begin()
        exchange(connection, [row(2)], last=True)
        connection.commit()
        connection.begin()
        exchange(connection, [row(3)], last=True)
        connection.commit()
    with opened() as connection:
        assert exchange(connection, [(ALL, {"ids": [1, 2, 3]})])[0].size == 3


def test_a_whole_transaction_waits_for_the_disk_at_its_end(site: Engine):
    with site.begin() as connection:
        before = connection.execute(text("SELECT pg_current_wal_flush_lsn()")).scalar_one()
    for _ in range(20):
        with site.connect() as connection, connection.begin():
            exchange(connection, [("SELECT pg_logical_emit_message(true, 'a', 'change')", {})], last=True)
            # The answer came after the flush of everything before it.
            written = connection.execute(
                text("SELECT pg_current_wal_flush_lsn() - CAST(:lsn AS pg_lsn)"), {"lsn": before}
            )
            assert written.scalar_one() > 0
        with site.begin() as connection:
            before = connection.execute(text("SELECT pg_current_wal_flush_lsn()")).scalar_one()


@pytest.mark.parametrize("level", ["REPEATABLE READ", "READ COMMITTED"])
def test_a_whole_transaction_keeps_the_isolation_level_of_its_engine(site: Engine, level: str):
    told = site.execution_options(isolation_level=level)
    with told.connect() as connection, connection.begin():
        shown = exchange(connection, [("SHOW transaction_isolation", {})], last=True)[0].rows
    assert shown == [(level.lower(),)]


def test_the_last_statements_are_committed_within_their_own_message(site: Engine):
    lock = ("SELECT pg_advisory_xact_lock_shared(7)", {})
    with writing(site) as connection:
        exchange(connection, [lock], last=True)
        with writing(site) as other:
            assert exchange(other, [("SELECT pg_try_advisory_xact_lock(7)", {})])[0].rows == [(True,)]


def test_a_failing_statement_raises_the_usual_error_and_later_ones_are_not_carried_out(opened):
    with opened() as connection:
        with pytest.raises(exc.IntegrityError, match="numbers_pkey"):
            exchange(connection, [row(1), row(1), row(2)])
        connection.rollback()
    with opened() as connection:
        assert exchange(connection, [(ALL, {"ids": [1, 2]})])[0].size == 0


def test_statements_are_prepared_again_after_the_driver_has_discarded_them(opened):
    with opened() as connection:
        exchange(connection, [row(1)])
        connection.commit()
        connection.begin()
        exchange(connection, [row(2)])
        for number in range(20):
            connection.execute(text("SELECT count(*) FROM numbers WHERE id > :id"), {"id": number})
        # The driver has prepared a statement by now, so a rollback discards all prepared statements of the connection.
        connection.rollback()
        for number in (3, 4):
            connection.begin()
            answers = exchange(connection, [row(number), (ALL, {"ids": [1, 2, number]})])
            assert [found[0] for found in answers[1].rows] == [1, number]
            connection.commit()


def test_discarded_statements_are_prepared_again_after_a_use_with_another_level(site: Engine):
    first, second = ("SELECT 1", {}), ("SELECT 2", {})
    # A new connection has no level of its own yet.
    site.dispose()
    with writing(site) as connection:
        exchange(connection, [first])
        exchange(connection, [second])
    # The pool sets the level back, but explicitly.
    with site.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.exec_driver_sql("DEALLOCATE ALL")
    for _ in range(2):
        with writing(site) as connection:
            exchange(connection, [("SELECT 3", {})])
            assert [answer.rows for answer in exchange(connection, [first, second])] == [[(1,)], [(2,)]]


def test_large_values_are_sent_and_returned(opened):
    many = bytes(range(256)) * 40_000
    with opened() as connection:
        answers = exchange(
            connection, [*(row(number, None, many) for number in range(4)), (ALL, {"ids": [0, 1, 2, 3]})]
        )
        assert [found[2] == many for found in answers[-1].rows] == [True] * 4


def test_columns_are_sent_as_arrays(opened):
    several = "INSERT INTO numbers SELECT * FROM unnest(%(id)s::bigint[], %(word)s::text[], %(bits)s::bytea[])"
    ids, words, bits = [-1, 2**62], [None, 'tw\u00f6 {"\\\\,'], [b"", b"\x00{}"]
    values = {"id": Array("bigint", ids), "word": Array("text", words), "bits": Array("bytea", bits)}
    with opened() as connection:
        answers = exchange(connection, [(several, values), (ALL, {"ids": ids})])
    assert answers[1].rows == list(zip(ids, words, bits, strict=True))


def test_a_transaction_keeps_the_isolation_level_of_its_engine(site: Engine):
    repeatable = site.execution_options(isolation_level="REPEATABLE READ")
    with repeatable.connect() as connection, connection.begin():
        shown = exchange(connection, [("SHOW transaction_isolation", {})])[0].rows
    assert shown == [("repeatable read",)]
    with site.connect() as connection, connection.begin():
        assert exchange(connection, [("SHOW transaction_isolation", {})])[0].rows == [("read committed",)]


def test_other_threads_run_during_an_exchange(site: Engine):
    lock = ("SELECT pg_advisory_xact_lock(1)", {})
    answers: list[Answer] = []

    def ask() -> None:
        with writing(site) as waiting:
            # If `exchange` kept other threads from running, the holder could not release the lock.
            answers.extend(exchange(waiting, [("SET LOCAL statement_timeout = '30s'", {}), lock]))

    def is_awaited() -> bool:
        with writing(site) as looking:
            return exchange(looking, [_AWAITED])[0].rows == [(1,)]

    with writing(site) as holder:
        exchange(holder, [lock])
        asked = threading.Thread(target=ask)
        asked.start()
        eventually(is_awaited)
    asked.join()
    assert len(answers) == 2


_AWAITED = (
    "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
    " WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted",
    {},
)


def test_a_lost_connection_raises_an_error_and_is_not_used_again(site: Engine):
    with pytest.raises(StoreUnavailableError):
        end_its_own_connection(site)
    with writing(site) as connection:
        assert exchange(connection, [("SELECT 1", {})])[0].rows == [(1,)]


def end_its_own_connection(site: Engine) -> None:
    with writing(site) as connection, writing(site) as other:
        ((pid,),) = exchange(connection, [("SELECT pg_backend_pid()", {})])[0].rows
        exchange(other, [("SELECT pg_terminate_backend(%(pid)s, 30000)", {"pid": pid})])
        exchange(connection, [("SELECT 1", {})])


def test_a_reading_transaction_of_one_message_is_over_after_it_and_sees_each_commit(new_database):
    engine = create_engine(new_database())
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE numbers (id bigint PRIMARY KEY, word text, bits bytea)"))
    for number in (1, 2):
        with writing(engine) as connection:
            exchange(connection, [row(number)])
        with reading(engine) as connection:
            answers = exchange(connection, [("SELECT 7", {}), (ALL, {"ids": [1, 2, 3]})], last=True)
            assert (answers[0].rows, answers[1].size) == ([(7,)], number)
            driver = connection.connection.dbapi_connection
            assert driver is not None
            assert driver.info.transaction_status.name == "IDLE"  # type: ignore[attr-defined]
    engine.dispose()


def test_a_failed_reading_transaction_of_one_message_leaves_the_connection_usable(new_database):
    engine = create_engine(new_database())
    for _ in range(2):
        with pytest.raises(exc.DBAPIError), reading(engine) as connection:
            exchange(connection, [("SELECT 1 / (SELECT 0)", {}), ("SELECT 1", {})], last=True)
        with reading(engine) as connection:
            assert exchange(connection, [("SELECT 8", {})], last=True)[0].rows == [(8,)]
    engine.dispose()
