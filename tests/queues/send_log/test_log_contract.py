"""The promises of every `Log`, for SQLite, PostgreSQL and the log in memory, which is the reference."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine

from queues.clock import now_us
from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables.sessions import sessions
from queues.destinations import destination_set
from queues.errors import OwnershipLostError, TrimmedError
from queues.names import ClientName, SiteId
from queues.positions import Tick
from queues.send_log.memory import MemoryLog, MemoryTransaction
from queues.send_log.opening import open_log, outbox
from queues.send_log.outbox import NewEntry
from queues.send_log.port import Log, LoggedEntry, LogRow, Retention, SessionKey, TickLimits, TickRows, count_within

CLIENT = ClientName("policy")
TOKYO = SessionKey(CLIENT, SiteId("tokyo"))
LIMA = SessionKey(CLIENT, SiteId("lima"))
SMALL = TickLimits(rows=6, payload_bytes=10_000)


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
        outbox(self.connection)(self.connection, CLIENT, entries, 1)

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
    def acknowledge(self, owed: SessionKey, seq: int) -> None: ...
    def another_owner(self) -> Lease: ...


class SqlStore:
    def __init__(self, engine: Engine, limits: TickLimits) -> None:
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

    def acknowledge(self, owed: SessionKey, seq: int) -> None:
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

    def __init__(self, limits: TickLimits) -> None:
        self.log = self.memory = MemoryLog(limits)
        self.lease = Lease("server", "me", 1)

    def begin(self) -> MemoryTransaction:
        return self.memory.begin(CLIENT)

    def another_owner(self) -> Lease:
        other = Lease("server", "another", 2)
        self.memory.take_tick(other, self.memory.bounds().newest)
        return other

    def acknowledge(self, owed: SessionKey, seq: int) -> None:
        self.memory.acknowledge(owed, seq)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(dialect: str, request: pytest.FixtureRequest) -> Callable[[TickLimits], Store]:
    if dialect == "memory":
        return MemoryStore
    new_site = request.getfixturevalue("new_site")
    return lambda limits: SqlStore(new_site("paris"), limits)


@pytest.fixture
def store(make: Callable[[TickLimits], Store]) -> Store:
    return make(SMALL)


def commit(store: Store, *entries: NewEntry) -> None:
    transaction = store.begin()
    transaction.write(list(entries))
    transaction.commit()


def drain(store: Store) -> list[TickRows]:
    groups: list[TickRows] = []
    last = store.log.bounds().newest
    while (group := store.log.take_tick(store.lease, last)) is not None:
        groups.append(group)
        last = group.tick
    return groups


def payloads(rows: list[LogRow]) -> list[bytes]:
    return [row.payload for row in rows]


def everything(store: Store, owed: SessionKey, ticks: list[Tick]) -> list[bytes]:
    found: list[bytes] = []
    for tick in ticks:
        found += payloads(read_by_session(store, owed, tick))
    return found


def whole_log(store: Store, limits: TickLimits = SMALL) -> list[LoggedEntry]:
    found: list[LoggedEntry] = []
    seq = store.log.bounds().trimmed_seq
    while ticks := store.log.ticks_after(seq, limits):
        found += [entry for piece in store.log.read_all(ticks, limits) for entry in piece]
        seq = ticks[-1].end_seq
    return found


def read_by_session(store: Store, owed: SessionKey, tick: Tick) -> list[LogRow]:
    if tick.is_large:
        return [row for piece in store.log.stream(owed, tick, 0, TickLimits(rows=4)) for row in piece.rows]
    return store.log.read(owed, [tick])[0]


def test_ticks_hold_whole_transactions_within_the_limits_and_number_their_rows_without_gaps(store: Store) -> None:
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
    make: Callable[[TickLimits], Store], rows: int
) -> None:
    store = make(TickLimits(rows=rows))
    for n in range(700):
        commit(store, entry(b"%d" % n, "lima"))
    groups = drain(store)
    ticks = [group.tick for group in groups]
    assert everything(store, LIMA, ticks) == [b"%d" % n for n in range(700)]
    # Reading many ticks at once gives the same rows.
    assert [payload for rows in store.log.read(LIMA, ticks) for payload in payloads(rows)] == everything(
        store, LIMA, ticks
    )
    assert [group.more for group in groups[-1:]] == [False]


def test_a_tick_gives_the_same_rows_on_each_read_for_each_destination(store: Store) -> None:
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
    assert [tick.number for tick in store.log.ticks_after(0, TickLimits())] == [1]
    assert [tick.number for tick in store.log.ticks_after(1, TickLimits())] == [2]
    pieces = list(store.log.stream(TOKYO, groups[1].tick, 3, TickLimits(rows=10)))
    assert [row.payload for piece in pieces for row in piece.rows] == [b"%d" % n for n in range(3, 20)]
    assert [len(piece.rows) for piece in pieces] == [10, 7]


def test_open_transactions_neither_hide_nor_delay_committed_entries(store: Store) -> None:
    if not store.concurrent:
        pytest.skip("SQLite has one writer at a time")
    slow = store.begin()
    slow.write([entry(b"slow")])
    commit(store, entry(b"quick"))
    assert [payloads(list(group.rows or ())) for group in drain(store)] == [[b"quick"]]
    slow.commit()
    assert [payloads(list(group.rows or ())) for group in drain(store)] == [[b"slow"]]
    ticks = store.log.ticks_after(0, TickLimits())
    assert everything(store, TOKYO, ticks) == [b"quick", b"slow"]


def test_a_replaced_owner_takes_no_tick(store: Store) -> None:
    before = store.lease
    commit(store, entry(b"1"))
    drain(store)
    store.lease = store.another_owner()
    commit(store, entry(b"2"))
    with pytest.raises(OwnershipLostError):
        store.log.take_tick(before, store.log.bounds().newest)
    assert [payloads(list(group.rows or ())) for group in drain(store)] == [[b"2"]]


def test_acknowledged_entries_are_trimmed_and_reading_them_raises_an_error(store: Store) -> None:
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
        store.log.ticks_after(0, TickLimits())
    with pytest.raises(TrimmedError):
        store.log.read(TOKYO, [first.tick])
    assert everything(store, TOKYO, store.log.ticks_after(1, TickLimits())) == [b"2"]


def test_retention_trims_unacknowledged_entries_and_names_their_destination(store: Store) -> None:
    store.acknowledge(TOKYO, 1)
    store.acknowledge(LIMA, 0)
    commit(store, entry(b"1", "tokyo", "lima"))
    drain(store)
    assert store.log.rotate(store.lease, 1, 0)
    assert store.log.trim(store.lease, Retention()).emptied_segments == 0
    trimmed = store.log.trim(store.lease, Retention(payload_bytes=0))
    assert (trimmed.emptied_segments, trimmed.laggards) == (1, (LIMA,))


def test_acknowledged_entries_are_kept_for_their_own_time_within_retention(store: Store) -> None:
    store.acknowledge(TOKYO, 1)
    commit(store, entry(b"1", "tokyo"))
    [group] = drain(store)
    assert store.log.rotate(store.lease, 1, 0)
    longer = (now_us() - group.tick.created_us) / 1_000_000 + 600
    assert store.log.trim(store.lease, Retention(acknowledged_seconds=longer)).emptied_segments == 0
    assert [row.payload for row in store.log.read(TOKYO, [group.tick])[0]] == [b"1"]
    # The limits of the log hold for these entries, too.
    limits = Retention(acknowledged_seconds=longer, payload_bytes=0)
    assert store.log.trim(store.lease, limits).emptied_segments == 1


@pytest.mark.parametrize("limit", [{"seconds": -1.0}, {"acknowledged_seconds": 0.0}, {"acknowledged_seconds": 1e-6}])
def test_acknowledged_entries_go_with_the_end_of_their_time(store: Store, limit: dict[str, float]) -> None:
    store.acknowledge(TOKYO, 1)
    commit(store, entry(b"1", "tokyo"))
    drain(store)
    assert store.log.rotate(store.lease, 1, 0)
    trimmed = store.log.trim(store.lease, Retention(**{"acknowledged_seconds": 600.0, **limit}))
    assert (trimmed.emptied_segments, trimmed.laggards) == (1, ())


def test_a_site_that_lags_loses_nothing_if_no_entry_was_for_it(store: Store) -> None:
    store.acknowledge(TOKYO, 1)
    store.acknowledge(LIMA, 0)
    commit(store, entry(b"1", "tokyo"))
    drain(store)
    assert store.log.rotate(store.lease, 1, 0)
    trimmed = store.log.trim(store.lease, Retention())
    assert (trimmed.emptied_segments, trimmed.laggards) == (1, ())


def test_entries_for_a_site_without_a_session_are_kept_until_retention(store: Store) -> None:
    store.acknowledge(TOKYO, 1)
    commit(store, entry(b"1", "tokyo", "nairobi"))
    drain(store)
    assert store.log.rotate(store.lease, 1, 0)
    assert store.log.trim(store.lease, Retention()).emptied_segments == 0
    assert store.log.trim(store.lease, Retention(seconds=-1)).emptied_segments == 1


def test_entries_that_only_unknown_destinations_lack_are_dropped_and_counted(store: Store) -> None:
    store.acknowledge(TOKYO, 1)
    commit(store, entry(b"1", "tokyo", "nairobi"))
    drain(store)
    assert store.log.rotate(store.lease, 1, 0)
    peers = frozenset({SiteId("tokyo")})
    assert store.log.trim(store.lease, Retention(peers=peers)).emptied_segments == 0
    known = Retention(unknown_seconds=-1, peers=peers | {SiteId("nairobi")})
    assert store.log.trim(store.lease, known).emptied_segments == 0
    trimmed = store.log.trim(store.lease, Retention(unknown_seconds=-1, peers=peers))
    lost = SessionKey(CLIENT, SiteId("nairobi"))
    assert (trimmed.emptied_segments, trimmed.laggards, dict(trimmed.dropped_unknown)) == (1, (), {lost: 1})


# --- the whole log ---------------------------------------------------------------------------------------------


def test_the_whole_log_numbers_all_entries_and_names_their_destinations(store: Store) -> None:
    commit(store, entry(b"1", "tokyo", "lima"), entry(b"2", "lima"))
    commit(store, NewEntry(b"3", destination_set(CLIENT, ["tokyo"]), "item", "partition"))
    ticks = [group.tick for group in drain(store)]
    found = whole_log(store)
    assert [(each.row.payload, each.destinations, each.seq) for each in found] == [
        (b"1", ("lima", "tokyo"), 1),
        (b"2", ("lima",), 2),
        (b"3", ("tokyo",), 3),
    ]
    assert [(each.row.item_key, each.row.partition_key) for each in found] == [(None, None)] * 2 + [
        ("item", "partition")
    ]
    assert {each.tick for each in found} == set(ticks)


@pytest.mark.parametrize("rows", [3, 6, 5_000])
def test_the_whole_log_holds_exactly_the_rows_that_every_session_reads(
    make: Callable[[TickLimits], Store], rows: int
) -> None:
    store = make(TickLimits(rows=rows))
    for n in range(40):
        commit(store, entry(b"t%d" % n, "tokyo"), entry(b"l%d" % n, "lima"))
    commit(store, *(entry(b"%d" % n, "tokyo" if n % 3 else "lima") for n in range(20)))
    ticks = [group.tick for group in drain(store)]
    found = whole_log(store, TickLimits(rows=rows))
    assert [each.seq for each in found] == list(range(1, 101))
    for tick in ticks:
        in_tick = [each for each in found if each.tick == tick]
        assert [each.seq for each in in_tick] == list(range(tick.start_seq + 1, tick.end_seq + 1))
        for owed in (TOKYO, LIMA):
            mine = [each.row for each in in_tick if owed.destination in each.destinations]
            assert mine == read_by_session(store, owed, tick)


def test_a_follower_reads_the_same_ticks_with_the_same_rows_and_sets(store: Store) -> None:
    for n in range(6):
        commit(store, entry(b"t%d" % n, "tokyo"), entry(b"l%d" % n, "lima"), entry(b"b%d" % n, "tokyo", "lima"))
    commit(store, *(entry(b"%02d" % n) for n in range(20)))
    commit(store, entry(b"last"))
    taken = drain(store)
    found: list[TickRows] = []
    while ticks := store.log.ticks_after(found[-1].tick.end_seq if found else 0, SMALL):
        found += store.log.followed(ticks)
    assert [group.tick.is_large for group in found].count(True) == 1
    expected = [TickRows(each.tick, None, {}) if each.rows is None else replace(each, more=False) for each in taken]
    assert [replace(group, rows=group.rows and list(group.rows)) for group in found] == expected


def test_all_rows_of_a_large_tick_come_in_parts_within_the_limits(store: Store) -> None:
    commit(store, entry(b"before"))
    commit(store, *(entry(b"%02d" % n, "lima" if n % 2 else "tokyo") for n in range(20)))
    tick = drain(store)[1].tick
    by_rows = list(store.log.read_all([tick], TickLimits(rows=8)))
    assert [len(piece) for piece in by_rows] == [8, 8, 4]
    assert [(each.row.payload, each.seq) for piece in by_rows for each in piece] == [
        (b"%02d" % n, n + 2) for n in range(20)
    ]
    by_bytes = list(store.log.read_all([tick], TickLimits(rows=100, payload_bytes=30)))
    assert [len(piece) for piece in by_bytes] == [15, 5]
    alone = list(store.log.read_all([tick], TickLimits(rows=100, payload_bytes=1)))
    assert [len(piece) for piece in alone] == [1] * 20


def test_reading_all_rows_of_a_trimmed_tick_raises_an_error(store: Store) -> None:
    store.acknowledge(TOKYO, 22)
    commit(store, entry(b"1"))
    commit(store, *(entry(b"%d" % n) for n in range(20)))
    usual, large = (group.tick for group in drain(store))
    begun = store.log.read_all([large], TickLimits(rows=8))
    assert len(next(begun)) == 8
    assert store.log.rotate(store.lease, 1, 0)
    commit(store, entry(b"2"))
    drain(store)
    assert store.log.trim(store.lease, Retention()).emptied_segments == 1
    for tick in (usual, large):
        with pytest.raises(TrimmedError):
            list(store.log.read_all([tick], SMALL))
    with pytest.raises(TrimmedError):
        next(begun)


@pytest.mark.parametrize(
    ("sizes", "count"), [([], 0), ([99], 1), ([99, 1], 1), ([4, 6, 1], 2), ([1, 1, 1, 1], 3), ([0, 0], 2)]
)
def test_the_rows_within_the_limits_are_counted_and_the_first_row_always_counts(sizes: list[int], count: int) -> None:
    assert count_within(sizes, TickLimits(rows=3, payload_bytes=10)) == count


# --- random histories against the reference -------------------------------------------------------------------

STEP = st.one_of(
    st.tuples(st.just("begin"), st.integers(0, 2)),
    st.tuples(st.just("write"), st.integers(0, 2), st.integers(1, 4), st.sampled_from(["tokyo", "lima", "both"])),
    st.tuples(st.just("commit"), st.integers(0, 2)),
    st.tuples(st.just("rollback"), st.integers(0, 2)),
    st.tuples(st.just("tick")),
)
CARRIED: list[dict[str, Any]] = [{}, {"headers": '{"a":"b"}'}, {"partition_key": "north"}, {"headers": '{"é":""}'}]
WHO = {"tokyo": ["tokyo"], "lima": ["lima"], "both": ["tokyo", "lima"]}


class Player:
    """Carries out one history on one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.open: dict[int, Transaction] = {}

    def play(self, step: tuple[object, ...], number: int) -> None:
        kind, *rest = step
        who = rest[0] if rest else None
        if kind == "tick":
            if self.store.concurrent or not self.open:  # a single writer blocks the other
                drain(self.store)
        elif kind == "begin" and who not in self.open and (self.store.concurrent or not self.open):
            self.open[who] = self.store.begin()  # type: ignore[index]
        elif who in self.open:
            transaction = self.open[who]  # type: ignore[index]
            if kind == "write":
                count, to = int(str(rest[1])), WHO[str(rest[2])]
                entries = [entry(b"%d.%d" % (number, k), *to) for k in range(count)]
                transaction.write([each._replace(**CARRIED[(number + k) % 4]) for k, each in enumerate(entries)])
            elif kind in ("commit", "rollback"):
                getattr(transaction, str(kind))()
                del self.open[who]  # type: ignore[arg-type]

    def end(self) -> tuple[list[bytes], list[bytes], list[tuple[object, ...]]]:
        for transaction in self.open.values():
            transaction.rollback()
        drain(self.store)
        ticks: list[Tick] = []
        seq = 0
        while more := self.store.log.ticks_after(seq, SMALL):
            ticks += more
            seq = ticks[-1].end_seq
        whole = [(*each.row[7:], each.destinations, each.seq) for each in whole_log(self.store)]
        assert len(whole) == seq
        return everything(self.store, TOKYO, ticks), everything(self.store, LIMA, ticks), whole


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEP, max_size=40))
def test_random_histories_give_the_rows_of_the_reference(
    make: Callable[[TickLimits], Store], steps: list[tuple[object, ...]]
) -> None:
    player, model = Player(make(SMALL)), Player(MemoryStore(SMALL))
    model.store.concurrent = player.store.concurrent
    for number, step in enumerate(steps):
        player.play(step, number)
        model.play(step, number)
    assert player.end() == model.end()


# --- headers and partition keys ----------------------------------------------------------------------------------


def carrying(payload: bytes, headers: str | None, partition_key: str | None = None) -> NewEntry:
    return entry(payload)._replace(headers=headers, partition_key=partition_key)


@pytest.mark.parametrize("extra", [0, 7], ids=["usual tick", "large tick"])
def test_every_read_gives_the_headers_and_the_partition_keys(store: Store, extra: int) -> None:
    mixed = [carrying(b"1", '{"a":"é"}', "north"), entry(b"2"), carrying(b"3", None, "ñ"), carrying(b"4", '{"b": "c"}')]
    commit(store, *mixed, *(entry(b"x") for _ in range(extra)))
    (group,) = drain(store)
    assert group.tick.is_large == bool(extra)
    given = [(each.headers, each.partition_key) for each in mixed] + [(None, None)] * extra
    for rows in (group.rows, read_by_session(store, TOKYO, group.tick), [each.row for each in whole_log(store)]):
        assert rows is None or [(row.headers, row.partition_key) for row in rows] == given


@pytest.mark.parametrize("headers", ['{"a":"%s"}' % ("x" * 3_992), '{"a":"%s"}' % ("é" * 1_996)], ids=["ascii", "é"])
def test_headers_count_in_bytes_for_the_limits_of_a_tick(make: Callable[[TickLimits], Store], headers: str) -> None:
    store = make(TickLimits(rows=100, payload_bytes=10_000))
    assert len(headers.encode()) == 4_000
    for _ in range(5):
        commit(store, carrying(b"x" * 900, headers, "p" * 100))
    assert [group.tick.end_seq for group in drain(store)] == [2, 4, 5]
    assert store.log.bounds().newest is not None
    assert store.log.ticks_after(0, SMALL)[0].bytes_total == 10_000
    commit(store, *(carrying(b"", headers) for _ in range(3)))
    (large,) = drain(store)
    assert (large.tick.is_large, large.tick.bytes_total) == (True, 5 * 5_000 + 12_000)
    pieces = list(store.log.read_all([large.tick], TickLimits(rows=100, payload_bytes=9_000)))
    assert [len(piece) for piece in pieces] == [2, 1]


# --- replaced entries --------------------------------------------------------------------------------------------


def item(payload: bytes, key: str | None, *destinations: str) -> NewEntry:
    return NewEntry(payload, destination_set(CLIENT, destinations or ["tokyo"]), key)


def test_of_each_item_in_a_large_tick_only_the_last_entry_stays_however_often_a_reader_resumes(store: Store) -> None:
    entries = [item(b"%d" % n, None if n % 5 == 0 else f"item {n % 3}") for n in range(20)]
    commit(store, *entries, item(b"for lima", "item 1", "lima"))
    (group,) = drain(store)
    stays = [b"0", b"5", b"10", b"15", b"17", b"18", b"19"]
    for skip in range(len(stays) + 1):
        pieces = list(store.log.stream(TOKYO, group.tick, skip, TickLimits(rows=3)))
        assert [row.payload for piece in pieces for row in piece.rows] == stays[skip:]
    assert sum(piece.replaced for piece in store.log.stream(TOKYO, group.tick, 0, TickLimits(rows=3))) == 13


def test_a_large_tick_of_an_earlier_version_keeps_its_replaced_rows(make: Callable[[TickLimits], Store]) -> None:
    store = make(SMALL)
    if isinstance(store, MemoryStore):
        pytest.skip("the log in memory has no earlier version")
    commit(store, *(item(b"%d" % n, "item") for n in range(10)))
    (group,) = drain(store)
    earlier = replace(group.tick, omits_replaced=False)
    rows = [row for piece in store.log.stream(TOKYO, earlier, 4, TickLimits(rows=4)) for row in piece.rows]
    assert payloads(rows) == [b"%d" % n for n in range(4, 10)]
    assert store.log.ticks_after(0, SMALL)[0].omits_replaced


def test_only_the_most_repeated_items_of_a_large_tick_are_remembered(
    make: Callable[[TickLimits], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make(SMALL)
    if isinstance(store, MemoryStore):
        pytest.skip("the log in memory remembers every item")
    for module in ("sqlite", "postgresql"):
        monkeypatch.setattr(f"queues.send_log.{module}.log.MAX_ITEMS", 1)
    commit(store, *(item(b"%s%d" % (key.encode(), n), key) for n in range(4) for key in "abb"))
    (group,) = drain(store)
    assert payloads(read_by_session(store, TOKYO, group.tick)) == [b"a0", b"a1", b"a2", b"a3", b"b3"]


def test_all_reads_follow_the_groups_of_replicas_old_entries_too(store: Store) -> None:
    commit(store, entry(b"before", "tokyo"))
    (first,) = drain(store)
    groups = {SiteId("tokyo"): (SiteId("tokyo-a"), SiteId("tokyo-b"))}
    store.log.regroup(store.lease, groups, lambda _connection, _changed: None)
    commit(store, entry(b"after", "tokyo"), entry(b"for one", "tokyo-b"), entry(b"another", "lima"))
    (second,) = drain(store)
    members = frozenset(map(SiteId, ("tokyo-a", "tokyo-b")))
    assert sorted(map(sorted, second.sets.values())) == sorted(map(sorted, [members, members, {"lima"}]))
    for member in sorted(members):
        owed = store.log.read(SessionKey(CLIENT, member), [first.tick, second.tick])
        assert list(map(payloads, owed)) == [[b"before"], [b"after", b"for one"]]
    assert store.log.read(TOKYO, [first.tick, second.tick]) == [[], []]
    (found,) = store.log.followed([second.tick])
    assert found.sets == second.sets


def test_a_lost_lease_changes_no_groups(store: Store) -> None:
    commit(store, entry(b"1"))
    (group,) = drain(store)
    store.another_owner()
    with pytest.raises(OwnershipLostError):
        store.log.regroup(store.lease, {SiteId("tokyo"): (SiteId("tokyo-a"),)}, lambda _connection, _changed: None)
    assert everything(store, TOKYO, [group.tick]) == [b"1"]
