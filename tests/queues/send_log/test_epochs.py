"""Epochs of a producer: staged by several tasks, moved into the log once, also after crashes between the steps."""

import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from weakref import WeakKeyDictionary

import pytest
from sqlalchemy import Engine, event, func, select, text

from queues.database import leases
from queues.database.tables.producers import log_staged_blocks, log_staging, producers
from queues.database.transactions import reading, writing
from queues.destinations import destination_set
from queues.errors import StoreUnavailableError, UnknownDestinationError
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log import staging
from queues.send_log.epochs import store_epoch
from queues.send_log.outbox import NewEntry
from queues.send_log.port import LogRow, TickLimits
from queues.send_log.staging import Epoch, PartStaging, StagedPart, decode, encode, forget_abandoned
from tests.queues.reading import Reader

POLICY = ClientName("policy")
TOKYO = destination_set(POLICY, ["tokyo"])
TICKS = TickLimits(rows=4_000, payload_bytes=2**20)


def entry(payload: str) -> NewEntry:
    return NewEntry(payload.encode(), TOKYO)


def stage(engine: Engine, epoch: Epoch, *payloads: str, block_rows: int = 2) -> StagedPart:
    part = PartStaging(engine, epoch, block_rows=block_rows)
    for payload in payloads:
        part.add(entry(payload))
    return part.finish()


def epoch(sequence: int, producer: str = "spark query q") -> Epoch:
    return Epoch(POLICY, producer, sequence)


def rows(engine: Engine) -> list[LogRow]:
    """Return the rows in the log, in its order."""
    reader = _readers.get(engine)
    if reader is None:
        lease = leases.acquire(engine, "server", "me", ttl=600)
        assert lease is not None
        reader = _readers[engine] = Reader(engine, lease, TICKS)
    reader.drain()
    return [found.row for each in reader.groups for page in reader.log.read_all([each.tick], TICKS) for found in page]


_readers: WeakKeyDictionary[Engine, Reader] = WeakKeyDictionary()


def logged(engine: Engine) -> list[str]:
    return [row.payload.decode() for row in rows(engine)]


def left(engine: Engine) -> tuple[int, int]:
    """Return the numbers of staged parts and blocks."""
    with reading(engine) as connection:
        counted = [select(func.count()).select_from(table) for table in (log_staging, log_staged_blocks)]
        parts, blocks = (connection.execute(each).scalar_one() for each in counted)
    return parts, blocks


def test_a_block_keeps_every_field_of_its_entries():
    several = destination_set(POLICY, ["lima", "tokyo"])
    entries = [
        NewEntry(b"", TOKYO),
        NewEntry(b"\0\xff", several, "a", "b", '{"k":"v","ü":""}'),
        NewEntry(b"x", several, None, "only"),
    ]
    assert decode(encode(entries), POLICY) == entries


def test_the_parts_get_into_the_log_in_the_order_of_the_call(site: Engine):
    second = stage(site, epoch(1), "3", "4", "5")
    first = stage(site, epoch(1), "1", "2")
    empty = stage(site, epoch(1))
    assert logged(site) == []
    assert store_epoch(site, epoch(1), [first, empty, second])
    assert logged(site) == ["1", "2", "3", "4", "5"]
    assert left(site) == (0, 0)


def test_an_epoch_is_one_transaction_and_the_producer_keeps_its_token(site: Engine):
    store_epoch(site, epoch(1), [stage(site, epoch(1), "1", "2", "3"), stage(site, epoch(1), "4")])
    with reading(site) as connection:
        producer = connection.execute(select(producers)).one()
    assert (producer.producer, producer.sequence) == ("spark query q", 1)
    token = PositionToken.parse(producer.token)
    assert (token.site, token.client) == ("paris", "policy")
    assert len(rows(site)) == 4
    assert len({row.transaction for row in rows(site)}) == 1


def test_a_repeated_commit_stores_nothing(site: Engine):
    parts = [stage(site, epoch(1), "1", "2")]
    assert store_epoch(site, epoch(1), parts)
    assert not store_epoch(site, epoch(1), parts)
    assert logged(site) == ["1", "2"]


def test_a_repeated_epoch_with_other_partitions_stores_nothing_and_leaves_nothing(site: Engine):
    store_epoch(site, epoch(1), [stage(site, epoch(1), "1"), stage(site, epoch(1), "2"), stage(site, epoch(1), "3")])
    assert not store_epoch(site, epoch(1), [stage(site, epoch(1), "1", "2"), stage(site, epoch(1), "3")])
    assert not store_epoch(site, epoch(0 + 1), [stage(site, epoch(1), "1", "2", "3")])
    assert logged(site) == ["1", "2", "3"]
    assert left(site) == (0, 0)


def test_later_epochs_of_a_producer_and_epochs_of_others_are_stored(site: Engine):
    for number in (1, 2, 5):
        assert store_epoch(site, epoch(number), [stage(site, epoch(number), str(number))])
    assert not store_epoch(site, epoch(4), [stage(site, epoch(4), "4")])
    assert store_epoch(site, epoch(4, "other"), [stage(site, epoch(4, "other"), "other")])
    assert logged(site) == ["1", "2", "5", "other"]


def test_an_epoch_without_rows_is_done_too(site: Engine):
    assert store_epoch(site, epoch(1), [stage(site, epoch(1))])
    assert not store_epoch(site, epoch(1), [stage(site, epoch(1), "late")])
    assert logged(site) == []


def test_only_the_named_tries_of_tasks_get_into_the_log(site: Engine):
    failed = stage(site, epoch(1), "1", "half")
    double = stage(site, epoch(1), "1", "2")
    won = stage(site, epoch(1), "1", "2")
    assert len({failed.attempt, double.attempt, won.attempt}) == 3
    store_epoch(site, epoch(1), [won])
    assert logged(site) == ["1", "2"]
    assert left(site) == (0, 0)


def test_a_try_that_goes_on_after_the_commit_fails_or_is_removed_by_the_next_epoch(site: Engine):
    late = PartStaging(site, epoch(1), block_rows=1)
    late.add(entry("1"))
    store_epoch(site, epoch(1), [stage(site, epoch(1), "1", "2")])
    with pytest.raises(StoreUnavailableError, match="the staged rows of a task were removed"):
        late.add(entry("2"))
    stage(site, epoch(1), "of a very late try")
    store_epoch(site, epoch(2), [stage(site, epoch(2), "3")])
    assert logged(site) == ["1", "2", "3"]
    assert left(site) == (0, 0)


def test_a_commit_whose_staged_rows_are_gone_stores_nothing_and_may_be_repeated(site: Engine):
    whole, lost = stage(site, epoch(1), "1"), stage(site, epoch(1), "2")
    staging.forget_parts(site, [lost.attempt])
    with pytest.raises(StoreUnavailableError, match="write the rows once more"):
        store_epoch(site, epoch(1), [whole, lost])
    assert logged(site) == []
    assert store_epoch(site, epoch(1), [whole, stage(site, epoch(1), "2")])
    assert logged(site) == ["1", "2"]


def test_a_part_with_other_rows_than_its_message_is_refused(site: Engine):
    part = stage(site, epoch(1), "1", "2")
    with pytest.raises(StoreUnavailableError, match="write the rows once more"):
        store_epoch(site, epoch(1), [part._replace(rows=1)])
    assert logged(site) == []


def test_a_job_without_a_number_leaves_no_record(site: Engine):
    once = Epoch(POLICY, "spark once 1", 0)
    assert store_epoch(site, once, [stage(site, once, "1")])
    assert logged(site) == ["1"]
    with reading(site) as connection:
        assert connection.execute(select(producers)).all() == []


@pytest.mark.parametrize("rows_per_transaction", [None, 3])
def test_of_two_drivers_that_commit_one_epoch_only_one_stores(site: Engine, rows_per_transaction: int | None):
    names = [[f"{driver} {number}" for number in range(20)] for driver in "ab"]
    parts = [[stage(site, epoch(1), *each[:10]), stage(site, epoch(1), *each[10:])] for each in names]
    together = threading.Barrier(2)

    def commit(own: list[StagedPart]) -> bool:
        together.wait()
        try:
            return store_epoch(site, epoch(1), own, rows_per_transaction=rows_per_transaction)
        except StoreUnavailableError:  # the other driver has removed the rows
            return False

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(commit, parts)) == [False, True]
    assert logged(site) in names
    assert left(site) == (0, 0)


# --- several transactions ---------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process dies here."""


@contextmanager
def crash_before(engine: Engine, statement: int) -> Iterator[list[str]]:
    """Let the process die before the statement of this number, from 0; give the list of the statements so far."""
    seen: list[str] = []

    def count(_connection, _cursor, sql, *_rest) -> None:
        if len(seen) == statement:
            raise Crash
        seen.append(sql)

    event.listen(engine, "before_cursor_execute", count)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", count)


def transactions(engine: Engine) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for row in rows(engine):
        found.setdefault(row.transaction, []).append(row.payload.decode())
    return list(found.values())


def test_a_large_epoch_may_be_several_transactions(site: Engine):
    parts = [stage(site, epoch(1), *map(str, range(5))), stage(site, epoch(1), *map(str, range(5, 10)))]
    assert store_epoch(site, epoch(1), parts, rows_per_transaction=3)
    moved = transactions(site)
    assert [row for each in moved for row in each] == [str(number) for number in range(10)]
    assert max(map(len, moved)) <= 3
    assert left(site) == (0, 0)


@pytest.mark.parametrize("rows_per_transaction", [None, 2])
def test_a_driver_that_dies_before_any_statement_is_continued(site: Engine, rows_per_transaction: int | None):
    """Each epoch of a series dies one statement later than the one before; its repetition has other partitions."""
    wanted: list[str] = []
    partly: set[int] = set()
    for sequence in range(1, 100):
        own = [f"{sequence}.{row}" for row in range(5)]
        part = stage(site, epoch(sequence), *own)
        try:
            with crash_before(site, sequence - 1):
                store_epoch(site, epoch(sequence), [part], rows_per_transaction=rows_per_transaction)
        except Crash:
            assert forget_abandoned(site, seconds=100) == 0
            stored = logged(site)
            assert stored == (wanted + own)[: len(stored)]
            partly.add(len(stored) - len(wanted))
            again = [stage(site, epoch(sequence), *own[:1]), stage(site, epoch(sequence), *own[1:])]
            store_epoch(site, epoch(sequence), again, rows_per_transaction=rows_per_transaction)
        else:
            break
        wanted += own
        assert logged(site) == wanted
        assert left(site) == (0, 0)
    assert partly == ({0, 5} if rows_per_transaction is None else {0, 2, 4, 5})
    assert sequence > 10


def test_the_next_epoch_first_moves_the_rows_of_an_interrupted_one(site: Engine):
    part = stage(site, epoch(1), "1", "2", "3", "4")
    number = 0
    while not logged(site):
        with crash_before(site, number), suppress(Crash):
            store_epoch(site, epoch(1), [part], rows_per_transaction=2)
        number += 1
    assert (logged(site), left(site)) == (["1", "2"], (1, 1))
    assert forget_abandoned(site, seconds=-1) == 0
    assert store_epoch(site, epoch(2), [stage(site, epoch(2), "5")])
    assert logged(site) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("sequence", [0, 1])
def test_a_database_that_fails_after_the_commit_fails_no_epoch(site: Engine, sequence: int):
    stage(site, epoch(sequence), "another try")
    part = stage(site, epoch(sequence), "1")
    moved: list[str] = []
    committed: list[str] = []

    def fail(_connection, _cursor, sql, *_rest) -> None:
        if committed and "lrq_log_staging" in sql:
            raise StoreUnavailableError("the database cannot be used just now")
        if sql.startswith("DELETE FROM lrq_log_staging "):
            moved.append(sql)

    def commit(_connection) -> None:
        committed.extend(moved)

    event.listen(site, "commit", commit)
    event.listen(site, "before_cursor_execute", fail)
    try:
        assert store_epoch(site, epoch(sequence), [part])
    finally:
        event.remove(site, "before_cursor_execute", fail)
        event.remove(site, "commit", commit)
    assert committed
    assert logged(site) == ["1"]
    assert forget_abandoned(site, seconds=-1) == 1
    assert left(site) == (0, 0)


# --- bounds -----------------------------------------------------------------------------------------------------


def test_abandoned_parts_are_removed_and_those_under_way_are_not(site: Engine):
    stage(site, epoch(1), "1", "2", "3")
    assert forget_abandoned(site) == 0
    with writing(site) as connection:
        connection.execute(text("UPDATE lrq_log_staging SET updated_us = updated_us - 86401000000"))
    fresh = stage(site, epoch(1, "other"), "1")
    assert forget_abandoned(site) == 1
    assert left(site) == (1, 1)
    assert store_epoch(site, epoch(1, "other"), [fresh])


@pytest.mark.long
def test_a_large_epoch_takes_bounded_memory(site: Engine):
    payload = "x" * 2_000

    def stage_and_store() -> Iterator[None]:
        part = PartStaging(site, epoch(1))
        for _ in range(20_000):
            part.add(entry(payload))
        yield
        store_epoch(site, epoch(1), [part.finish()])
        yield

    tracemalloc.start()
    try:
        for _ in stage_and_store():
            assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()
    assert len(rows(site)) == 20_000


def test_an_unknown_destination_is_refused_while_staging(site: Engine):
    own = NewEntry(b"x", destination_set(POLICY, ["paris"]))
    part = PartStaging(site, epoch(1))
    part.add(own)
    with pytest.raises(UnknownDestinationError, match="'paris' is this site itself"):
        part.finish()
    assert left(site) == (0, 0)
