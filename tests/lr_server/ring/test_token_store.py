"""The store of a token: its record is durable at once, and its log is that of an ordinary source."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Engine, create_engine, event, text

from lr_server.protocol.agreement.effects import KeepPromise, KeepRecord, KeepStore, KeepTicks
from lr_server.protocol.agreement.history import EMPTY, GenerationStart, TickHistory, TickMark
from lr_server.protocol.agreement.record import MemberRecord, StoreId, founders
from lr_server.ring.founding import found
from lr_server.ring.store import TokenStore
from queues.errors import (
    ConfigurationError,
    CorruptFrameError,
    DataLossError,
    StoreTakenError,
    TrimmedError,
)
from queues.names import ClientName, SiteId
from queues.send_log.opening import open_log
from queues.send_log.outbox import SourceTransaction
from queues.send_log.port import SessionKey, TickLimits
from queues.send_log.ring.tick_contents import TickContent, content_after, empty_end, seal_after
from tests.conftest import NewSite
from tests.lr_server.ring.stores import (
    UIDS,
    begin,
    keep_after,
    log_rows,
    new_entry,
    new_store,
    open_store,
    reopen,
    stamp,
    take,
    transaction,
    witness_path,
)

Files = Callable[[], Engine]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def new_file(new_site: NewSite) -> Files:
    """Give a function that creates an initialised database of one site."""
    return lambda: new_site("paris")


def history_of(*generations: int) -> TickHistory:
    """Return the history of ticks that these generations took."""
    ticks = tuple(TickMark(generation, number) for number, generation in enumerate(generations, 1))
    return EMPTY.followed_by(ticks)


# --- the record -----------------------------------------------------------------------------------------------


def test_each_durable_effect_is_in_the_record_of_the_next_process(new_file: Files):
    engine = new_file()
    store = new_store(engine, rank=1)
    store.keep(KeepStore(2, StoreId(5, 900)))
    begin(3, store)
    take([transaction(b"one")], store)
    store.keep(KeepPromise(6))
    stores = (*founders(UIDS)[1].stores[:2], StoreId(5, 900))
    assert reopen(engine, store).record() == MemberRecord(1, stores, 6, history_of(3, 3))


def test_a_store_that_is_no_founder_counts_only_with_its_copied_record(new_file: Files):
    whole, engine = new_store(new_file()), new_file()
    begin(2, whole)
    take([transaction(b"one")], whole)
    copy = open_store(engine)
    copy.copy(0, whole.read(0, 64)[:1])
    copy = reopen(engine, copy)
    assert copy.record() is None
    copy.copy(1, whole.read(1, 64))
    record = MemberRecord(2, founders(UIDS)[2].stores, 4, history_of(2, 2))
    copy.keep(KeepRecord(record))
    assert reopen(engine, copy).record() == record


def test_a_copied_record_needs_exactly_its_ticks(new_file: Files):
    whole, copy = new_store(new_file()), open_store(new_file())
    begin(2, whole)
    copy.copy(0, whole.read(0, 64))
    with pytest.raises(CorruptFrameError, match="the copied log ends elsewhere"):
        copy.keep(KeepRecord(MemberRecord(2, founders(UIDS)[2].stores, 4, history_of(2, 2))))
    assert copy.record() is None


def test_a_store_that_counts_takes_no_copy(new_file: Files):
    store, other = new_store(new_file()), new_store(new_file(), 1)
    seal = begin(2, other)
    with pytest.raises(StoreTakenError):
        store.copy(0, [seal])


@pytest.mark.parametrize("effect", [KeepPromise(9), KeepStore(1, StoreId(4, 4)), KeepTicks(0, ())])
def test_a_process_that_opened_the_file_earlier_changes_nothing(new_file: Files, effect):
    engine = new_file()
    earlier = new_store(engine)
    later = reopen(engine, earlier)
    before = later.record()
    with pytest.raises(StoreTakenError, match="another process has opened"):
        earlier.keep(effect)
    assert later.record() == before
    later.keep(KeepPromise(9))


def test_a_record_that_lost_rows_is_not_believed(new_file: Files):
    engine = new_file()
    store = new_store(engine)
    begin(2, store)
    with engine.begin() as connection:
        connection.execute(text("UPDATE lrq_ring_member SET promised = 1"))
    with pytest.raises(DataLossError, match="has lost rows"):
        store.record()


# --- founding and opening -------------------------------------------------------------------------------------


def test_a_founder_is_founded_once(new_file: Files):
    engine = new_file()
    store = new_store(engine)
    store.keep(KeepPromise(2))
    store.close()
    again = new_store(engine)
    assert again.record().promised == 2
    again.close()
    with pytest.raises(ConfigurationError, match="belongs to rank 0 already"):
        new_store(engine, rank=1)


def test_a_store_with_ticks_is_not_founded(new_file: Files):
    whole, copy = new_store(new_file()), open_store(new_file())
    copy.copy(0, [begin(2, whole)])
    with pytest.raises(ConfigurationError, match="has ticks"):
        found(copy, founders(UIDS)[1])


def test_an_emptied_store_is_not_founded_again_while_its_witness_is_left(new_file: Files):
    engine, emptied = new_file(), new_file()
    store = new_store(engine)
    store.keep(KeepPromise(2))
    store.close()
    witness_path(engine).rename(witness_path(emptied))
    with pytest.raises(ConfigurationError, match="knows an earlier store: for a lost disk run `lrq ring replace`"):
        new_store(emptied)


def test_a_file_of_another_token_is_refused(new_file: Files):
    engine = new_file()
    new_store(engine).close()
    with pytest.raises(ConfigurationError, match="holds token 7, not token 8"):
        open_store(engine, 8)


def test_a_log_that_an_application_has_written_is_refused(new_file: Files):
    engine = new_file()
    with engine.begin() as connection:
        connection.execute(text("UPDATE lrq_log_head SET last_id = 1"))
    with pytest.raises(ConfigurationError, match="belongs to no ring"):
        open_store(engine)


def test_an_engine_without_durable_commits_is_refused(new_file: Files):
    weak = create_engine(new_file().url)

    @event.listens_for(weak, "connect")
    def hurry(connection, _):
        connection.execute("PRAGMA synchronous = NORMAL")

    with pytest.raises(ConfigurationError, match="are not durable"):
        open_store(weak)
    weak.dispose()


# --- the log --------------------------------------------------------------------------------------------------


def full_log(*stores: TokenStore) -> None:
    """Write two generations with entries of two clients, headers, keys and several destinations."""
    begin(2, *stores)
    several = [transaction(b"one", b"two", to=["tokyo", "lima"]), transaction(b"three", item_key="car")]
    other = ClientName("claims")
    several.append(SourceTransaction(other, [new_entry(b"four", "lima", client=other, headers='{"a":"b"}')]))
    take(several, *stores)
    begin(3, *stores)
    take([transaction(*(b"%d" % number for number in range(20)), partition_key="7")], *stores)
    take([transaction(b"last")], *stores)


def test_the_files_of_all_members_have_the_same_log(new_file: Files):
    engines = [new_file() for _ in range(3)]
    full_log(*(new_store(engine, rank) for rank, engine in enumerate(engines)))
    rows = [log_rows(engine) for engine in engines]
    assert rows[0] == rows[1] == rows[2]
    assert len(rows[0]["lrq_log_entries_0"]) == 25


def test_the_read_ticks_are_the_stored_ones_and_make_an_equal_log_elsewhere(new_file: Files):
    engines = [new_file(), new_file()]
    one, other = new_store(engines[0]), new_store(engines[1], 1)
    full_log(one)
    after = 0
    while contents := one.read(after, 2):
        other.keep(KeepPromise(contents[-1].generation))
        keep_after(after, contents, other)
        after = contents[-1].tick.number
    assert after == 5
    assert log_rows(engines[0]) == log_rows(engines[1])
    assert other.history() == TickHistory((GenerationStart(2, 1), GenerationStart(3, 3)), 5)


@pytest.mark.parametrize("after", [0, 1])
def test_an_answer_has_at_most_the_asked_number_of_ticks(new_file: Files, after: int):
    engine = new_file()
    store = new_store(engine)
    full_log(store)
    # A store that was opened anew has no tick in memory.
    store = reopen(engine, store)
    for most in range(1, 5):
        wanted = range(after + 1, min(after + most, 5) + 1)
        assert [content.tick.number for content in store.read(after, most)] == [*wanted]


def test_an_answer_has_a_limit_of_bytes_but_at_least_one_tick(new_file: Files):
    store = new_store(new_file())
    begin(2, store)
    for _ in range(3):
        take([transaction(b"x" * 1_000)], store)
    assert [len(store.read(0, 64, limit)) for limit in (0, 999, 2_100, 3_100)] == [1, 1, 3, 4]
    assert [len(store.read(1, 64, limit)) for limit in (0, 999, 2_100)] == [1, 1, 2]
    assert store.read(4, 64) == []
    with pytest.raises(TrimmedError):
        store.read(5, 64)


def test_an_ordinary_source_reads_the_log_of_a_member(new_file: Files):
    engine = new_file()
    full_log(new_store(engine, 2))
    log, limits = open_log(engine), TickLimits()
    ticks = log.ticks_after(0, limits)
    assert [(tick.start_seq, tick.end_seq) for tick in ticks] == [(0, 4), (4, 4), (4, 24), (24, 25)]
    assert log.bounds().newest == ticks[-1]
    for client, site, payloads in (
        ("policy", "lima", [[b"one", b"two"], [], [], []]),
        ("claims", "lima", [[b"four"], [], [], []]),
        ("policy", "tokyo", [[b"one", b"two", b"three"], [], [b"%d" % number for number in range(20)], [b"last"]]),
    ):
        read = log.read(SessionKey(ClientName(client), SiteId(site)), ticks)
        assert [[row.payload for row in rows] for rows in read] == payloads
    entries = [entry for piece in log.read_all(ticks, limits) for entry in piece]
    assert [entry.seq for entry in entries] == list(range(1, 26))
    assert entries[0].destinations == ("lima", "tokyo")
    followed = log.followed(ticks)
    assert [len(group.rows) for group in followed] == [4, 0, 20, 1]
    assert log.ticks_after(4, limits) == ticks[2:]


def test_replaced_ticks_leave_no_trace_in_the_log(new_file: Files):
    """A member with another tail ends with the same log as a member that never had that tail."""
    engines = [new_file(), new_file()]
    one, other = new_store(engines[0]), new_store(engines[1], 1)
    begin(2, one, other)
    take([transaction(b"shared")], one, other)
    take([transaction(b"lost", b"lost too", to=["tokyo"])], one)
    begin(4, one)
    take([transaction(b"also lost")], one)
    one.keep(KeepPromise(5))
    other.keep(KeepPromise(5))
    winners = [seal_after(other.end(), 5, "winner", stamp())]
    keep_after(2, winners, one, other)
    take([transaction(b"kept")], one, other)
    assert log_rows(engines[0]) == log_rows(engines[1])
    assert one.record().history == other.record().history == history_of(2, 2, 5, 5)


def test_a_log_may_go_back_to_its_beginning(new_file: Files):
    engines = [new_file(), new_file()]
    one, other = new_store(engines[0]), new_store(engines[1], 1)
    begin(2, one)
    one.keep(KeepPromise(3))
    seal = begin(3, other)
    keep_after(0, [seal], one)
    assert log_rows(engines[0]) == log_rows(engines[1])


def test_ticks_of_another_history_are_refused_and_change_nothing(new_file: Files):
    engines = [new_file(), new_file()]
    one, other = new_store(engines[0]), new_store(engines[1], 1)
    begin(2, one)
    begin(2, other)  # the seal of the same generation has another random number: one store was restored or changed
    content = content_after(other.end(), [transaction(b"one")], stamp())
    before = log_rows(engines[0])
    with pytest.raises(DataLossError, match="follows another tick 1"):
        keep_after(1, [content], one)
    assert log_rows(engines[0]) == before


def broken(content: TickContent) -> dict[str, TickContent]:
    tick, rows = content.tick, content.rows
    return {
        "a number too far": content._replace(tick=replace(tick, number=tick.number + 1)),
        "a gap of entries": content._replace(tick=replace(tick, start_seq=9, end_seq=11)),
        "fewer rows than it says": content._replace(rows=rows[:1]),
        "a row of another place": content._replace(rows=[rows[0], rows[1]._replace(id=99)]),
        "a torn transaction": content._replace(rows=[rows[0]._replace(transaction=0), rows[1]]),
        "other bytes than it says": content._replace(rows=[rows[0], rows[1]._replace(payload=b"longer than before")]),
        "a set without destinations": content._replace(sets={}),
        "a set of other destinations": content._replace(sets=dict.fromkeys(content.sets, "lima")),
        "another visibility": content._replace(tick=replace(tick, mark="id/77")),
        "another branch": content._replace(tick=replace(tick, branch="elsewhere")),
        "a later generation without a seal": content._replace(generation=3),
        "an earlier generation": content._replace(generation=1),
        "no rows and no seal": content._replace(rows=(), tick=replace(tick, end_seq=tick.start_seq)),
        "a tick in parts": content._replace(tick=replace(tick, is_large=True)),
    }


EXAMPLE = content_after(empty_end("branch"), [transaction(b"one", b"two")], stamp())


@pytest.mark.parametrize("fault", sorted(broken(EXAMPLE)))
def test_a_tick_that_contradicts_itself_is_refused(new_file: Files, fault: str):
    engine = new_file()
    store = new_store(engine)
    begin(2, store)
    before = log_rows(engine)
    content = broken(content_after(store.end(), [transaction(b"one", b"two")], stamp()))[fault]
    with pytest.raises(CorruptFrameError):
        keep_after(1, [content], store)
    assert log_rows(engine) == before
    take([transaction(b"one", b"two")], store)
