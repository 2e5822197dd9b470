"""The requests of producers in the log of a ring: alike at each member, and gone with their ticks."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, event, text

from lr_server.protocol.agreement.effects import KeepPromise, KeepRecord
from lr_server.protocol.agreement.history import TickHistory, TickMark
from lr_server.protocol.agreement.record import MemberRecord, founders
from lr_server.protocol.agreement.roles import DEFAULT_LIMITS
from queues.database.transactions import reading
from queues.errors import CorruptFrameError
from queues.names import ClientName
from queues.positions import Position, PositionToken
from queues.send_log.outbox import SourceTransaction
from queues.send_log.producers import MAX_SEQUENCE, ProducerKey
from queues.send_log.ring import productions as module
from queues.send_log.ring.productions import KEPT_TICKS, PRUNED_EACH, place_of, standings
from queues.send_log.ring.tick_contents import LogEnd, TickContent, content_after, seal_after
from queues.send_log.ring.tick_productions import TickProduction
from tests.conftest import NewSite
from tests.lr_server.ring.requests import key_of, take_requests
from tests.lr_server.ring.stores import (
    CLIENT,
    UIDS,
    begin,
    keep_after,
    log_rows,
    new_entry,
    new_store,
    open_store,
    stamp,
    take,
    transaction,
)

Files = Callable[[], Engine]
TABLE = "lrq_ring_productions"


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def new_file(new_site: NewSite) -> Files:
    """Give a function that creates an initialised database of one site."""
    return lambda: new_site("paris")


def numbers(engine: Engine, *producers: str) -> dict[str, int]:
    """Return the number of the last request of each of *producers* with one."""
    with reading(engine) as connection:
        found = standings(connection, [key_of(producer) for producer in producers])
    return {key.producer: each.last.sequence for key, each in found.items()}


def sequences(engine: Engine, producer: str) -> list[int]:
    """Return the numbers of the requests of *producer* that the file knows, oldest first."""
    return [row["sequence"] for row in log_rows(engine)[TABLE] if row["producer"] == producer]  # type: ignore[misc]


# --- the standing ---------------------------------------------------------------------------------------------


def test_each_member_tells_the_same_standing_of_a_producer(new_file: Files):
    engines = [new_file(), new_file(), new_file()]
    stores = [new_store(engine, rank) for rank, engine in enumerate(engines)]
    seal = begin(2, *stores)
    take([transaction(b"of no producer")], *stores)
    end = stores[0].end()
    asked = [TickProduction(key_of(), 1, 9, 1, 2), TickProduction(key_of(), 2, 9, 1, 3)]
    offered = [transaction(b"one", b"two"), transaction(b"three"), transaction(b"of no producer")]
    keep_after(2, [content_after(end, offered, stamp(), asked)], *stores)
    for engine in engines:
        with reading(engine) as connection:
            (found,) = standings(connection, [key_of(), key_of("unknown")]).values()
        last, position = found
        assert (last.sequence, last.process, last.first, last.request) == (2, 9, 1, 0)
        assert position == Position(seal.tick.branch, 4)
        assert last.token == f"paris/policy/{seal.tick.branch}/4"
    assert log_rows(engines[0]) == log_rows(engines[1]) == log_rows(engines[2])


def test_the_place_of_a_request_is_known_until_its_tick_is_replaced(new_file: Files):
    engine = new_file()
    store = new_store(engine)
    origin = store.end()
    seal = begin(2, store)
    take_requests([("meter", 1), ("meter", 2)], store)
    known, later = (PositionToken("paris", CLIENT, seal.tick.branch, entry) for entry in (2, 3))
    with reading(engine) as connection:
        assert place_of(connection, known) == (Position(seal.tick.branch, 2), (2, 2))
        assert place_of(connection, later) is None
    store.keep(KeepPromise(3))
    keep_after(0, [seal_after(origin, 3, "another", stamp())], store)
    take_requests([("meter", 1), ("meter", 2)], store)
    with reading(engine) as connection:
        assert place_of(connection, known) is None


def test_the_standing_of_many_producers_is_read_through_an_index(new_file: Files):
    engine = new_file()
    store = new_store(engine)
    begin(2, store)
    names = [f"meter{number}" for number in range(1_000)]
    take_requests([(name, 1) for name in names], store)
    take_requests([(names[7], 2)], store)
    seen: list[str] = []
    with reading(engine) as connection:
        event.listen(engine, "before_cursor_execute", lambda *given: seen.append(given[2]))
        found = standings(connection, map(key_of, names))
        assert {key.producer: each.last.sequence for key, each in found.items()} == {
            **dict.fromkeys(names, 1),
            names[7]: 2,
        }
        (statement, *_) = [one for one in seen if TABLE in one]
        plan = connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {statement}", (CLIENT, "meter") * statement.count("(?, ?)")
        )
        steps = [row[3] for row in plan]
    assert len(seen) <= 5
    # SQLite before 3.36 names the list of the asked producers by a number.
    short = ("asked", "CONSTANT", "SUBQUERY")
    assert [step for step in steps if step.startswith("SCAN") and not any(word in step for word in short)] == []
    assert any("ix_lrq_ring_productions_producer" in step for step in steps)


# --- ticks that go --------------------------------------------------------------------------------------------


def test_requests_of_replaced_ticks_are_gone_at_the_member_that_had_them(new_file: Files):
    engines = [new_file(), new_file()]
    one, other = new_store(engines[0]), new_store(engines[1], 1)
    begin(2, one, other)
    take_requests([("meter", 1), ("gauge", 1)], one, other)
    take_requests([("meter", 2), ("meter", 3), ("third", 1)], one)
    assert numbers(engines[0], "meter", "gauge", "third") == {"meter": 3, "gauge": 1, "third": 1}
    for store in (one, other):
        store.keep(KeepPromise(3))
    keep_after(2, [seal_after(other.end(), 3, "winner", stamp())], one, other)
    assert numbers(engines[0], "meter", "gauge", "third") == {"meter": 1, "gauge": 1}
    take_requests([("meter", 2)], one, other)
    assert log_rows(engines[0]) == log_rows(engines[1])


def test_a_newcomer_copies_the_requests_with_their_ticks(new_file: Files):
    engines = [new_file(), new_file()]
    whole, copy = new_store(engines[0]), open_store(engines[1])
    begin(2, whole)
    for number in range(1, 200):
        take_requests([("meter", number), *([("seldom", number // 70)] if number % 70 == 0 else [])], whole)
    assert len(sequences(engines[0], "meter")) < 199
    after = 0
    while page := whole.read(after, 7):
        copy.copy(after, page)
        after = page[-1].tick.number
    record = MemberRecord(
        2,
        founders(UIDS)[2].stores,
        2,
        TickHistory().followed_by(tuple(TickMark(2, number) for number in range(1, 201))),
    )
    copy.keep(KeepRecord(record))
    assert log_rows(engines[0]) == log_rows(engines[1])
    assert numbers(engines[1], "meter", "seldom") == {"meter": 199, "seldom": 2}


def test_a_page_has_a_limit_of_requests_but_at_least_one_tick(new_file: Files, monkeypatch: pytest.MonkeyPatch):
    store = new_store(new_file())
    begin(2, store)
    contents = [take_requests([(name, number) for name in ("meter", "gauge")], store) for number in range(1, 5)]
    monkeypatch.setattr(module, "MOST_PRODUCTIONS", 5)
    assert store.read(1, 64) == contents[:2]
    assert store.read(3, 64) == contents[2:]
    monkeypatch.setattr(module, "MOST_PRODUCTIONS", 1)
    assert store.read(1, 64) == contents[:1]


# --- pruning --------------------------------------------------------------------------------------------------


def test_a_log_keeps_twice_as_many_ticks_as_may_wait():
    assert 2 * DEFAULT_LIMITS.waiting <= KEPT_TICKS


def test_old_requests_go_only_after_newer_settled_ones(new_file: Files):
    """The newest settled request of a producer stays, however old it is, and all of the newest ticks stay."""
    engines = [new_file(), new_file()]
    stores = [new_store(engine, rank) for rank, engine in enumerate(engines)]
    begin(2, *stores)
    take_requests([("old", 1), ("returns", 1)], *stores)
    take_requests([("old", 2)], *stores)
    end = 5 * PRUNED_EACH
    for number in range(4, end + 1):
        late = [("returns", 2)] if number == end - KEPT_TICKS + 1 else []
        take_requests([("busy", number), *late], *stores)
    assert sequences(engines[0], "old") == [2]
    assert sequences(engines[0], "busy") == list(range(end - KEPT_TICKS, end + 1))
    # The newer request is in one of the newest ticks.
    assert sequences(engines[0], "returns") == [1, 2]
    assert log_rows(engines[0]) == log_rows(engines[1])


def test_a_standing_from_before_a_replaced_tail_is_there_again_after_pruning(new_file: Files):
    """All ticks that may wait are replaced, after a pruning that knew the later requests."""
    engine = new_file()
    store = new_store(engine)
    begin(2, store)
    take_requests([("meter", 1), ("gauge", 1)], store)
    waiting = DEFAULT_LIMITS.waiting
    released = 4 * PRUNED_EACH - waiting
    for number in range(3, released + 1):
        take_requests([("busy", number)], store)
    for number in range(2, waiting + 2):
        take_requests([("meter", number)], store)
    assert store.end().tick.number % PRUNED_EACH == 0
    store.keep(KeepPromise(3))
    keep_after(released, [seal_after(LogEnd(2, store.read(released - 1, 1)[0].tick), 3, "winner", stamp())], store)
    assert numbers(engine, "meter", "gauge", "busy") == {"meter": 1, "gauge": 1, "busy": released}


def test_seals_alone_settle_nothing(new_file: Files):
    """Many generations may begin without a release, so their seals prove nothing."""
    engine = new_file()
    store = new_store(engine)
    begin(2, store)
    for number in range(1, 64):
        take_requests([("meter", number)], store)
    for generation in range(3, 3 + 4 * PRUNED_EACH):
        begin(generation, store)
    assert sequences(engine, "meter") == list(range(1, 64))


def test_the_table_stays_small_while_seals_stand_at_the_numbers_of_pruning(new_file: Files):
    engine = new_file()
    store = new_store(engine)
    begin(2, store)
    for generation in range(3, 10):
        while store.end().tick.number % PRUNED_EACH != PRUNED_EACH - 1:
            take_requests([("meter", store.end().tick.number)], store)
        begin(generation, store)
    assert len(sequences(engine, "meter")) <= KEPT_TICKS + 1


# --- contradictions -------------------------------------------------------------------------------------------


def example(store) -> TickContent:
    other = ClientName("claims")
    offered = [
        transaction(b"one", b"two"),
        SourceTransaction(other, [new_entry(b"three", client=other)]),
        transaction(b"four"),
    ]
    asked = [
        TickProduction(key_of(), 4, 9, 3, 2),
        TickProduction(key_of(client=other), 1, 0, 0, 3),
        TickProduction(key_of(), 5, 9, 3, 4),
    ]
    return content_after(store.end(), offered, stamp(), asked)


BROKEN: dict[str, Callable[[list[TickProduction]], list[TickProduction]]] = {
    "no row": lambda asked: [*asked, asked[2]._replace(sequence=6, last_row=5)],
    "a row before the tick": lambda asked: [asked[0]._replace(last_row=0), *asked[1:]],
    "a part of a transaction": lambda asked: [asked[0]._replace(last_row=1), *asked[1:]],
    "rows of another client": lambda asked: [asked[0], asked[1]._replace(key=key_of("x")), asked[2]],
    "a row of another request": lambda asked: [*asked[:2], asked[2]._replace(last_row=3)],
    "requests out of order": lambda asked: [asked[1], asked[0], asked[2]],
    "a sequence of none": lambda asked: [asked[0], asked[1]._replace(sequence=0), asked[2]],
    "a sequence beyond the last": lambda asked: [asked[0], asked[1]._replace(sequence=MAX_SEQUENCE + 1), asked[2]],
    "a gap of sequences": lambda asked: [*asked[:2], asked[2]._replace(sequence=6)],
    "a repeated sequence": lambda asked: [*asked[:2], asked[2]._replace(sequence=4)],
    "a first request after the last one": lambda asked: [asked[0]._replace(first=5), *asked[1:]],
    "a process without a first request": lambda asked: [asked[0]._replace(first=0), *asked[1:]],
    "a process that began twice": lambda asked: [*asked[:2], asked[2]._replace(first=5)],
    "another process that began before": lambda asked: [*asked[:2], asked[2]._replace(process=8)],
    "a process beyond the last": lambda asked: [asked[0]._replace(process=MAX_SEQUENCE + 1), *asked[1:]],
    "no name": lambda asked: [asked[0], asked[1]._replace(key=ProducerKey(ClientName("claims"), "")), asked[2]],
}  # fmt: skip


@pytest.mark.parametrize("fault", sorted(BROKEN))
def test_requests_that_contradict_their_tick_are_refused_and_change_nothing(new_file: Files, fault: str):
    engine = new_file()
    store = new_store(engine)
    begin(2, store)
    before = log_rows(engine)
    content = example(store)
    with pytest.raises(CorruptFrameError, match="contradicts itself"):
        keep_after(1, [content._replace(productions=BROKEN[fault](list(content.productions)))], store)
    assert log_rows(engine) == before
    keep_after(1, [content], store)
    assert store.read(1, 1) == [content]


def test_a_seal_has_no_requests(new_file: Files):
    store = new_store(new_file())
    store.keep(KeepPromise(2))
    seal = seal_after(store.end(), 2, "second", stamp())
    with pytest.raises(CorruptFrameError):
        keep_after(0, [seal._replace(productions=[TickProduction(key_of(), 1, 0, 0, 1)])], store)


def test_every_row_has_the_number_of_its_place_in_the_log(new_file: Files):
    """Tokens and positions of requests rest on that."""
    engines = [new_file(), new_file()]
    store = new_store(engines[0])
    begin(2, store)
    take_requests([("meter", 1)], store)
    begin(4, store)
    take_requests([("meter", 2), ("meter", 3)], store)
    with engines[0].connect() as connection:
        rows = connection.execute(text("SELECT end_seq, mark FROM lrq_ticks")).all()
    assert [mark for _, mark in rows] == [f"id/{end}" for end, _ in rows]
