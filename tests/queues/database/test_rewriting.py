"""Small tables with many updates are rewritten: a held snapshot keeps a bounded number of dead rows."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, select, text, update

import queues
from lr_client.sender import RoutingQueueSenderClient
from queues.database import leases
from queues.database.postgresql import rewriting
from queues.database.postgresql.rewriting import is_bloated, rewrite
from queues.database.postgresql.truncation import BusyError
from queues.database.tables.rewritten import REWRITTEN, REWRITTEN_UNKEPT
from queues.database.tables.sessions import sessions
from queues.database.transactions import reading, writing
from queues.send_log.port import SessionKey
from queues.send_log.sessions import every_key
from tests.queues.held import held_snapshot
from tests.queues.reading import Reader
from tests.waiting import eventually

on_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
#: Enough versions of one row to make a small table bloated.
UPDATES = 1_000
#: One page cannot hold `UPDATES` versions of a row: a table of one page has lost them.
ONE_PAGE = 8_192
TICKS = 200
client = RoutingQueueSenderClient("policy")


def add_session(engine: Engine, destination: str) -> None:
    with engine.begin() as connection:
        connection.execute(
            sessions.insert().values(
                client="policy", destination=destination, state="log-entry sync", reason="", branch="b",
                acked_seq=7, cut="", lost_seq=5, transferred_rows=0, updated_us=0,
            )
        )  # fmt: skip


def update_often(engine: Engine) -> None:
    with engine.connect() as connection:
        for number in range(UPDATES):
            connection.execute(update(sessions).values(updated_us=number))
            connection.commit()


def content(engine: Engine) -> list[list[tuple[object, ...]]]:
    with engine.connect() as connection:
        return [
            sorted(tuple(row) for row in connection.execute(select(table))) for table in (*REWRITTEN, *REWRITTEN_UNKEPT)
        ]


def size(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(text("SELECT pg_relation_size('lrq_sessions')")).scalar_one()


@on_postgresql
def test_trimming_rewrites_a_bloated_table_while_a_snapshot_is_held(site: Engine, reader: Reader) -> None:
    add_session(site, "tokyo")
    add_session(site, "lima")
    with held_snapshot(site):
        update_often(site)
        before = content(site)
        assert size(site) > UPDATES * 100
        reader.trim()
        assert size(site) == ONE_PAGE
        assert content(site) == before


@on_postgresql
def test_a_small_table_is_not_rewritten(site: Engine) -> None:
    add_session(site, "tokyo")
    with writing(site) as connection:
        assert not rewrite(connection)


@on_postgresql
def test_a_reader_at_one_snapshot_finds_all_rows_and_postpones_the_rewriting(site: Engine, reader: Reader) -> None:
    add_session(site, "tokyo")
    with held_snapshot(site):
        update_often(site)
        with reading(site, snapshot=True) as connection:
            connection.execute(text("SELECT pg_current_snapshot()"))
            with pytest.raises(BusyError), writing(site) as other:
                rewrite(other)
            reader.trim()
            assert connection.execute(select(sessions.c.destination)).scalars().all() == ["tokyo"]
        reader.trim()
        assert size(site) == ONE_PAGE


@on_postgresql
def test_ticks_positions_and_leases_advance_during_constant_rewriting(
    site: Engine, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "is_bloated", lambda *_: True)
    add_session(site, "tokyo")
    done = threading.Event()
    rewritten: list[bool] = []

    def rewrite_again_and_again() -> None:
        while not done.is_set():
            try:
                with writing(site) as connection:
                    rewritten.append(rewrite(connection))
            except BusyError:
                pass

    thread = threading.Thread(target=rewrite_again_and_again)
    thread.start()
    try:
        for number in range(TICKS):
            with site.begin() as connection:
                client.transmit_log_entry_message(connection, b"x", ["tokyo"])
            assert len(reader.drain()) == 1
            with writing(site) as connection:
                changed = connection.execute(update(sessions).values(acked_seq=number))
                assert changed.rowcount == 1
            leases.renew(site, reader.lease, ttl=60)
    finally:
        done.set()
        thread.join()
    assert len(rewritten) > TICKS / 10
    assert [row[5] for row in content(site)[0]] == [TICKS - 1]


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_a_table_is_bloated_only_above_the_largest_size_of_its_rows(rows: int) -> None:
    written_anew = -(-rows // 2) * ONE_PAGE  # no row takes more than half a page
    assert not is_bloated(written_anew, rows)
    assert is_bloated(written_anew + 40 * 1024, rows)


@on_postgresql
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_reader_that_waits_for_a_rewriting_sees_the_rows_with_any_default_level(
    site: Engine, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "is_bloated", lambda *_: True)
    add_session(site, "tokyo")
    with site.begin() as connection:
        name = connection.dialect.identifier_preparer.quote(str(site.url.database))
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'"))
    strict = queues.create_engine(site.url)
    waits = text("SELECT count(*) FROM pg_locks WHERE relation = 'lrq_sessions'::regclass AND NOT granted")

    def look() -> list[SessionKey]:
        with reading(strict) as connection:
            return every_key(connection)

    with ThreadPoolExecutor() as pool:
        with site.begin() as connection:
            assert rewrite(connection)
            looked = pool.submit(look)
            with site.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
                eventually(lambda: other.execute(waits).scalar_one() == 1)
        assert looked.result() == [("policy", "tokyo")]
    strict.dispose()
