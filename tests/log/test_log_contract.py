"""What every `Log` promises: SQLite, PostgreSQL, and the one in memory, which is the reference."""

from collections.abc import Callable
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine

from queues import dialects, leases
from queues.destinations import destination_set
from queues.errors import OwnershipLostError, TrimmedError
from queues.leases import Lease
from queues.log.memory import MemoryLog, MemoryTransaction
from queues.log.opening import open_log
from queues.log.outbox import NewEntry
from queues.log.port import Group, Limits, Log, LogRow, Owed, Retention
from queues.names import ClientName, SiteId
from queues.positions import Tick
from queues.tables import sessions

CLIENT = ClientName("policy")
TOKYO = Owed(CLIENT, SiteId("tokyo"))
LIMA = Owed(CLIENT, SiteId("lima"))
SMALL = Limits(rows=6, payload_bytes=10_000)


def entry(payload: bytes, *destinations: str) -> NewEntry:
    return NewEntry(payload, destination_set(CLIENT, destinations or ["tokyo"]))


class Transaction(Protocol):
    def write(self, entries: list[NewEntry]) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


class SqlTransaction:
    def __init__(self, engine: Engine) -> None:
        self.connection: Connection = engine.connect()
        self.connection.begin()

    def write(self, entries: list[NewEntry]) -> None:
        dialects.outbox(self.connection)(self.connection, CLIENT, entries, 1)

    def commit(self) -> None:
        self.connection.commit()
        self.connection.close()

    def rollback(self) -> None:
        self.connection.rollback()
        self.connection.close()


class Store(Protocol):
    log: Log
    lease: Lease
    concurrent: bool

    def begin(self) -> Transaction: ...
    def acknowledge(self, owed: Owed, seq: int) -> None: ...
    def another_owner(self) -> Lease: ...


class SqlStore:
    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.engine = engine
        self.log = open_log(engine, limits)
        self.lease = self.another_owner()
        self.concurrent = engine.dialect.name == "postgresql"

    def begin(self) -> Transaction:
        return SqlTransaction(self.engine)

    def another_owner(self) -> Lease:
        held = leases.holder(self.engine, "server")
        if held is not None:
            leases.release(self.engine, held.lease)
        got = leases.acquire(self.engine, "server", "me", ttl=600)
        assert got is not None
        return got

    def acknowledge(self, owed: Owed, seq: int) -> None:
        with self.engine.begin() as connection:
            connection.execute(sessions.delete().where(sessions.c.destination == owed.destination))
            connection.execute(
                sessions.insert().values(
                    client=owed.client, destination=owed.destination, state="", reason="", branch="", acked_seq=seq,
                    cut="", lost_seq=0, transferred_rows=0, updated_us=0,
                )
            )  # fmt: skip


class MemoryStore:
    concurrent = True

    def __init__(self, limits: Limits) -> None:
        self.log = self.memory = MemoryLog(limits)
        self.lease = Lease("server", "me", 1)

    def begin(self) -> MemoryTransaction:
        return self.memory.begin(CLIENT)

    def another_owner(self) -> Lease:
        other = Lease("server", "another", 2)
        self.memory.take_tick(other, self.memory.bounds().newest)
        return other

    def acknowledge(self, owed: Owed, seq: int) -> None:
        self.memory.acknowledge(owed, seq)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(dialect: str, request: pytest.FixtureRequest) -> Callable[[Limits], Store]:
    if dialect == "memory":
        return MemoryStore
    new_site = request.getfixturevalue("new_site")
    return lambda limits: SqlStore(new_site("paris"), limits)


@pytest.fixture
def store(make: Callable[[Limits], Store]) -> Store:
    return make(SMALL)


def commit(store: Store, *entries: NewEntry) -> None:
    transaction = store.begin()
    transaction.write(list(entries))
    transaction.commit()


def drain(store: Store) -> list[Group]:
    groups: list[Group] = []
    last = store.log.bounds().newest
    while (group := store.log.take_tick(store.lease, last)) is not None:
        groups.append(group)
        last = group.tick
    return groups


def payloads(rows: list[LogRow]) -> list[bytes]:
    return [row.payload for row in rows]


def everything(store: Store, owed: Owed, ticks: list[Tick]) -> list[bytes]:
    found: list[bytes] = []
    for tick in ticks:
        for piece in store.log.stream(owed, tick, 0, Limits(rows=4)) if tick.is_large else store.log.read(owed, [tick]):
            found += payloads(piece)
    return found


def test_ticks_hold_whole_transactions_within_the_limits_and_number_them_gaplessly(store: Store) -> None:
    for n in range(7):
        commit(store, *(entry(f"{n}.{k}".encode()) for k in range(4)))
    groups = drain(store)
    assert [(group.tick.start_seq, group.tick.end_seq) for group in groups] == [(4 * n, 4 * n + 4) for n in range(7)]
    assert [group.more for group in groups] == [True] * 6 + [False]
    assert [payloads(list(group.rows or ())) for group in groups] == [
        [f"{n}.{k}".encode() for k in range(4)] for n in range(7)
    ]


def test_a_rolled_back_transaction_is_in_no_tick(store: Store) -> None:
    transaction = store.begin()
    transaction.write([entry(b"gone")])
    transaction.rollback()
    assert drain(store) == []
    commit(store, entry(b"kept"))
    (group,) = drain(store)
    assert payloads(list(group.rows or ())) == [b"kept"]


@pytest.mark.parametrize("rows", [3, 5_000])
def test_a_backlog_of_many_small_transactions_is_ticked_whole_and_in_order(
    make: Callable[[Limits], Store], rows: int
) -> None:
    store = make(Limits(rows=rows))
    for n in range(700):
        commit(store, entry(b"%d" % n, "lima"))
    groups = drain(store)
    ticks = [group.tick for group in groups]
    assert everything(store, LIMA, ticks) == [b"%d" % n for n in range(700)]
    # Many at once are the same.
    assert [payload for rows in store.log.read(LIMA, ticks) for payload in payloads(rows)] == everything(
        store, LIMA, ticks
    )
    assert [group.more for group in groups[-1:]] == [False]


def test_a_tick_reads_the_same_again_for_each_destination(store: Store) -> None:
    for n in range(20):
        commit(store, entry(b"t%d" % n, "tokyo"), entry(b"b%d" % n, "lima", "tokyo"))
    ticks = [group.tick for group in drain(store)]
    assert [payloads(rows) for rows in store.log.read(LIMA, ticks)] == [
        [b"b%d" % n for n in range(first, min(first + 3, 20))] for first in range(0, 20, 3)
    ]
    assert everything(store, LIMA, ticks) == [b"b%d" % n for n in range(20)]
    assert store.log.read(TOKYO, ticks) == [store.log.read(TOKYO, [tick])[0] for tick in ticks]


def test_a_transaction_above_the_limits_is_a_tick_of_its_own(store: Store) -> None:
    commit(store, entry(b"before"))
    commit(store, *(entry(b"%d" % n) for n in range(20)))
    commit(store, entry(b"after"))
    groups = drain(store)
    assert [group.tick.is_large for group in groups] == [False, True, False]
    assert [group.tick.rows for group in groups] == [1, 20, 1]
    assert [group.more for group in groups] == [True, True, False]
    assert groups[1].sets == {groups[0].rows[0].tag_set: frozenset({"tokyo"})}  # type: ignore[index]
    assert [tick.number for tick in store.log.ticks_after(0, Limits())] == [1]
    assert [tick.number for tick in store.log.ticks_after(1, Limits())] == [2]
    pieces = list(store.log.stream(TOKYO, groups[1].tick, 3, Limits(rows=10)))
    assert [payload for piece in pieces for payload in payloads(piece)] == [b"%d" % n for n in range(3, 20)]
    assert [len(piece) for piece in pieces] == [10, 7]


def test_open_transactions_neither_hide_nor_delay_what_is_committed(store: Store) -> None:
    if not store.concurrent:
        pytest.skip("SQLite has one writer at a time")
    slow = store.begin()
    slow.write([entry(b"slow")])
    commit(store, entry(b"quick"))
    assert [payloads(list(group.rows or ())) for group in drain(store)] == [[b"quick"]]
    slow.commit()
    assert [payloads(list(group.rows or ())) for group in drain(store)] == [[b"slow"]]
    ticks = store.log.ticks_after(0, Limits())
    assert everything(store, TOKYO, ticks) == [b"quick", b"slow"]


def test_an_owner_that_was_replaced_takes_no_tick(store: Store) -> None:
    before = store.lease
    commit(store, entry(b"1"))
    drain(store)
    store.lease = store.another_owner()
    commit(store, entry(b"2"))
    with pytest.raises(OwnershipLostError):
        store.log.take_tick(before, store.log.bounds().newest)
    assert [payloads(list(group.rows or ())) for group in drain(store)] == [[b"2"]]


def test_what_is_acknowledged_is_trimmed_and_reading_it_says_so(store: Store) -> None:
    store.acknowledge(TOKYO, 0)
    commit(store, entry(b"1"))
    (first,) = drain(store)
    assert store.log.rotate(store.lease, 1, 0)
    commit(store, entry(b"2"))
    drain(store)
    assert store.log.trim(store.lease, Retention()).emptied_segments == 0
    store.acknowledge(TOKYO, 1)
    trimmed = store.log.trim(store.lease, Retention())
    assert (trimmed.seq, trimmed.emptied_segments, trimmed.laggards) == (1, 1, ())
    assert store.log.bounds().trimmed_seq == 1
    with pytest.raises(TrimmedError):
        store.log.ticks_after(0, Limits())
    with pytest.raises(TrimmedError):
        store.log.read(TOKYO, [first.tick])
    assert everything(store, TOKYO, store.log.ticks_after(1, Limits())) == [b"2"]


def test_retention_trims_what_a_laggard_was_owed_and_names_it(store: Store) -> None:
    store.acknowledge(TOKYO, 1)
    store.acknowledge(LIMA, 0)
    commit(store, entry(b"1", "tokyo", "lima"))
    drain(store)
    assert store.log.rotate(store.lease, 1, 0)
    assert store.log.trim(store.lease, Retention()).emptied_segments == 0
    trimmed = store.log.trim(store.lease, Retention(payload_bytes=0))
    assert (trimmed.emptied_segments, trimmed.laggards) == (1, (LIMA,))


def test_a_laggard_that_was_owed_nothing_loses_nothing(store: Store) -> None:
    store.acknowledge(TOKYO, 1)
    store.acknowledge(LIMA, 0)
    commit(store, entry(b"1", "tokyo"))
    drain(store)
    assert store.log.rotate(store.lease, 1, 0)
    trimmed = store.log.trim(store.lease, Retention())
    assert (trimmed.emptied_segments, trimmed.laggards) == (1, ())


def test_what_a_site_without_a_session_is_owed_is_kept_until_retention(store: Store) -> None:
    store.acknowledge(TOKYO, 1)
    commit(store, entry(b"1", "tokyo", "nairobi"))
    drain(store)
    assert store.log.rotate(store.lease, 1, 0)
    assert store.log.trim(store.lease, Retention()).emptied_segments == 0
    assert store.log.trim(store.lease, Retention(seconds=-1)).emptied_segments == 1


# --- random histories against the reference -------------------------------------------------------------------

STEP = st.one_of(
    st.tuples(st.just("begin"), st.integers(0, 2)),
    st.tuples(st.just("write"), st.integers(0, 2), st.integers(1, 4), st.sampled_from(["tokyo", "lima", "both"])),
    st.tuples(st.just("commit"), st.integers(0, 2)),
    st.tuples(st.just("rollback"), st.integers(0, 2)),
    st.tuples(st.just("tick")),
)
WHO = {"tokyo": ["tokyo"], "lima": ["lima"], "both": ["tokyo", "lima"]}


class Player:
    """Plays one history on one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.open: dict[int, Transaction] = {}

    def play(self, step: tuple[object, ...], number: int) -> None:
        kind, *rest = step
        who = rest[0] if rest else None
        if kind == "tick":
            if self.store.concurrent or not self.open:  # where there is one writer at a time, the next one waits for it
                drain(self.store)
        elif kind == "begin" and who not in self.open and (self.store.concurrent or not self.open):
            self.open[who] = self.store.begin()  # type: ignore[index]
        elif who in self.open:
            transaction = self.open[who]  # type: ignore[index]
            if kind == "write":
                transaction.write([entry(b"%d.%d" % (number, k), *WHO[str(rest[2])]) for k in range(int(str(rest[1])))])
            elif kind in ("commit", "rollback"):
                getattr(transaction, str(kind))()
                del self.open[who]  # type: ignore[arg-type]

    def end(self) -> tuple[list[bytes], list[bytes], int]:
        for transaction in self.open.values():
            transaction.rollback()
        drain(self.store)
        ticks: list[Tick] = []
        seq = 0
        while more := self.store.log.ticks_after(seq, SMALL):
            ticks += more
            seq = ticks[-1].end_seq
        return everything(self.store, TOKYO, ticks), everything(self.store, LIMA, ticks), seq


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEP, max_size=40))
def test_random_histories_give_what_the_reference_gives(
    make: Callable[[Limits], Store], steps: list[tuple[object, ...]]
) -> None:
    player, model = Player(make(SMALL)), Player(MemoryStore(SMALL))
    model.store.concurrent = player.store.concurrent
    for number, step in enumerate(steps):
        player.play(step, number)
        model.play(step, number)
    assert player.end() == model.end()
