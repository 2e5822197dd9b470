"""The store of a member after the trim of old ticks, and the copy of such a store."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from lr_server.protocol.agreement.effects import KeepPromise, KeepRecord
from lr_server.protocol.agreement.history import TickHistory
from lr_server.protocol.agreement.record import MemberRecord, founders
from lr_server.protocol.histories import SinkHistory, TickKey
from lr_server.protocol.negotiation import Cause, Decision, Rebuild, Resume, decide
from lr_server.ring import member_state, recent_ticks
from lr_server.ring.log_copy import copy_log
from lr_server.ring.recent_ticks import MOST_TICKS
from lr_server.ring.store import TokenStore
from lr_server.session.history import history_within
from queues.database.transactions import reading, writing
from queues.errors import CorruptFrameError, DataLossError, StoreTakenError, StoreUnavailableError, TrimmedError
from queues.names import SiteId
from queues.positions import Position, PositionToken
from queues.send_log import segments
from queues.send_log.opening import open_log
from queues.send_log.port import SessionKey, TickLimits
from queues.send_log.ring import member_trim
from queues.send_log.ring.log_base import LogBase, StoredRequest
from queues.send_log.ring.productions import KEPT_TICKS, PRUNED_EACH, place_of, standings
from queues.send_log.ring.tick_contents import TickContent, seal_after
from queues.send_log.sessions import add_session, find_session
from queues.states import SessionState
from tests.conftest import NewSite
from tests.lr_server.ring.requests import key_of, take_requests
from tests.lr_server.ring.stores import (
    CLIENT,
    UIDS,
    begin,
    keep_after,
    log_rows,
    new_store,
    open_store,
    reopen,
    stamp,
    take,
    transaction,
    witness_path,
)

Files = Callable[[], Engine]
OWED = {site: SessionKey(CLIENT, SiteId(site)) for site in ("tokyo", "lima", "rome")}


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs here are short, and trimmed ticks would be in memory."""
    monkeypatch.setattr(recent_ticks, "MOST_TICKS", 1)


@pytest.fixture
def new_file(new_site: NewSite) -> Files:
    """Give a function that creates an initialised database of one site."""
    return lambda: new_site("paris")


def fill(*stores: TokenStore) -> list[TickContent]:
    """Store ticks 1 to 9 of two generations, with entries 1 to 6 for tokyo and lima; return the ticks."""
    return [
        begin(2, *stores),
        take_requests([("meter", 1), ("gauge", 1)], *stores),
        take([transaction(b"for lima", to=["lima"])], *stores),
        take_requests([("meter", 2)], *stores),
        begin(5, *stores),
        take([transaction(b"one", to=["tokyo", "lima"])], *stores),
        take([transaction(b"two")], *stores),
        begin(6, *stores),
        take_requests([("meter", 3)], *stores),
    ]


def trim(store: TokenStore, upto: int) -> None:
    while not store.trim(upto):
        pass


def test_the_record_outlives_the_trimmed_ticks(new_file: Files):
    engine = new_file()
    store = new_store(engine)
    ticks = fill(store)
    before = store.record()
    trim(store, 6)
    store = reopen(engine, store)
    assert (store.record(), store.end().tick, store.trimmed()) == (before, ticks[-1].tick, 6)
    assert store.read(6, 64) == ticks[6:]
    for after in range(6):
        with pytest.raises(TrimmedError):
            store.read(after, 64)
    assert take([transaction(b"next")], store).tick.number == 10


def test_trimmed_entries_leave_the_file(new_file: Files):
    engine = new_file()
    store = new_store(engine)
    fill(store)
    trim(store, 6)
    assert [row["id"] for row in log_rows(engine)["lrq_log_entries_0"]] == [6, 7]
    log = open_log(engine)
    assert log.bounds().trimmed_seq == 5
    with pytest.raises(TrimmedError):
        log.ticks_after(4, TickLimits())
    assert [tick.number for tick in log.ticks_after(5, TickLimits())] == [7, 8, 9]


def test_a_trim_goes_in_bounded_steps_and_never_back(new_file: Files, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(member_trim, "_MOST", 2)
    store = new_store(new_file())
    fill(store)
    seen = []
    while not store.trim(7):
        seen.append(store.trimmed())
    assert (seen, store.trimmed()) == ([2, 4], 7)
    assert store.trim(3)
    assert store.trimmed() == 7


def test_old_rows_of_ticks_go_and_the_generations_stay(new_file: Files, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments, "KEPT_TICKS", 1)
    engine = new_file()
    store = new_store(engine)
    fill(store)
    record = store.record()
    trim(store, 6)
    rows = log_rows(engine)
    assert [row["number"] for row in rows["lrq_ticks"]] == [5, 6, 7, 8, 9]
    assert [row["seal"] for row in rows["lrq_ring_generations"]] == [1, 5, 8]
    assert store.record() == record


def test_no_other_tick_comes_in_the_place_of_a_trimmed_one(new_file: Files):
    engine = new_file()
    store = new_store(engine)
    ticks = fill(store)
    trim(store, 6)
    store.keep(KeepPromise(8))
    before = log_rows(engine)
    for after in (3, 5):
        with pytest.raises(DataLossError, match="is trimmed here"):
            keep_after(after, [], store)
    assert log_rows(engine) == before
    end = store.end()._replace(generation=5, tick=ticks[6].tick)
    keep_after(7, [seal_after(end, 8, "later", stamp())], store)
    assert store.history().newest == (8, 8)


def test_the_place_of_a_trimmed_request_is_known(new_file: Files, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments, "KEPT_TICKS", 0)
    engine = new_file()
    store = new_store(engine)
    ticks = fill(store)
    trim(store, 7)
    first = ticks[0].tick.branch
    with reading(engine) as connection:
        assert place_of(connection, PositionToken("paris", CLIENT, first, 4)) == (Position(first, 4), (5, 7))
        assert place_of(connection, PositionToken("paris", CLIENT, "another", 4)) is None
        found = standings(connection, [key_of("gauge")])
    assert found[key_of("gauge")].position == Position(first, 2)


def test_enough_ticks_stay_for_requests_and_messages():
    assert member_state.KEPT_TICKS >= KEPT_TICKS + PRUNED_EACH
    assert member_state.KEPT_TICKS >= MOST_TICKS


# --- sinks ----------------------------------------------------------------------------------------------------


def test_a_sink_goes_on_only_with_its_last_trimmed_entry(new_file: Files):
    """A session of an earlier lead knows less than the sink has acknowledged elsewhere."""
    engine = new_file()
    store = new_store(engine)
    fill(store)
    with writing(engine) as connection:
        for site in ("tokyo", "rome"):
            add_session(connection, OWED[site], SessionState.IDLE, "")
    trim(store, 7)
    with reading(engine) as connection:
        lost = {site: history_within(connection, owed, SinkHistory()).lost_seq for site, owed in OWED.items()}
        whole = {site: history_within(connection, owed, SinkHistory()).is_whole for site, owed in OWED.items()}
        row = find_session(connection, OWED["tokyo"])
    assert row is not None
    assert (row.lost_seq, lost) == (6, {"tokyo": 6, "lima": 6, "rome": 0})
    assert whole == {"tokyo": False, "lima": False, "rome": True}


def test_no_sink_skips_a_trimmed_entry_at_the_next_leader(new_file: Files):
    engine = new_file()
    store = new_store(engine)
    ticks = [each.tick for each in fill(store)]
    trim(store, 7)

    def decided(site: str, number: int = 0) -> Decision:
        """Return the decision for a sink with the ticks up to *number*."""
        tick = ticks[number - 1] if number else None
        sink = SinkHistory()
        if tick is not None:
            key = TickKey(tick.branch, tick.end_seq, tick.uid)
            sink = SinkHistory(Position(tick.branch, tick.end_seq), tick.end_seq, 0, (key,))
        with reading(engine) as connection:
            return decide(history_within(connection, OWED[site], sink), sink, initial_sync="auto")

    late = decided("tokyo", 4)
    assert isinstance(late, Rebuild)
    assert late.reason == "the sink has received up to 4, but entries for it up to 6 are trimmed"
    empty = decided("tokyo")
    assert isinstance(empty, Rebuild)
    assert empty.cause is Cause.NOTHING_YET
    assert isinstance(decided("tokyo", 7), Resume)
    assert isinstance(decided("rome"), Resume)


# --- newcomers ------------------------------------------------------------------------------------------------


class Members:
    """The other members of a newcomer, with small answers; `calls` are left until the source trims up to `later`."""

    def __init__(self, store: TokenStore, *, calls: int = 1_000_000, later: int = 0) -> None:
        self.store, self.calls, self.later = store, calls, later

    def pull(self, rank: int, after: int) -> list[TickContent]:
        self.calls -= 1
        if not self.calls:
            trim(self.store, self.later)
        return self.store.read(after, 2)

    def pull_base(self, rank: int) -> LogBase:
        return self.store.read_base()

    def pull_requests(self, rank: int, after: int, upto: int) -> list[StoredRequest]:
        return self.store.read_requests(after, upto)[:1]


def copied(source: TokenStore, engine: Engine) -> TokenStore:
    """Return a store that has become a member by a copy of *source*."""
    store = open_store(engine)
    history = source.history()
    copy_log(store, Members(source), 0, history)
    store.keep(KeepRecord(MemberRecord(2, founders(UIDS)[2].stores, 9, history)))
    return store


def test_a_newcomer_goes_on_from_the_last_trimmed_tick(new_file: Files):
    engines = [new_file(), new_file()]
    source = new_store(engines[0])
    ticks = fill(source)
    trim(source, 6)
    newcomer = copied(source, engines[1])
    record = newcomer.record()
    assert record is not None
    assert (record.history, newcomer.trimmed()) == (source.history(), 6)
    assert newcomer.read(6, 64) == ticks[6:]
    both = [log_rows(engine) for engine in engines]
    for table in ("lrq_branches", "lrq_ring_generations", "lrq_ring_productions", "lrq_site", "lrq_log_head"):
        assert both[0][table] == both[1][table], table
    keys = [key_of("meter"), key_of("gauge")]
    for engine in engines:
        with reading(engine) as connection:
            assert {key.producer: each.last.sequence for key, each in standings(connection, keys).items()} == {
                "meter": 3,
                "gauge": 1,
            }
    take([transaction(b"next")], source, newcomer)
    newcomer.keep(KeepPromise(10))
    assert begin(10, newcomer).tick.number == 11


def test_a_newcomer_knows_which_sinks_lack_entries(new_file: Files):
    engines = [new_file(), new_file()]
    source = new_store(engines[0])
    fill(source)
    with writing(engines[0]) as connection:
        add_session(connection, OWED["lima"], SessionState.IDLE, "")
    with writing(engines[1]) as connection:
        add_session(connection, OWED["rome"], SessionState.IDLE, "")
    trim(source, 7)
    copied(source, engines[1])
    with reading(engines[1]) as connection:
        found = {site: history_within(connection, owed, SinkHistory()) for site, owed in OWED.items()}
    # The session of rome is of an earlier time, and the entries of its sink are unknown.
    assert {site: each.lost_seq for site, each in found.items()} == {"tokyo": 6, "lima": 6, "rome": 6}
    assert {site: each.is_whole for site, each in found.items()} == {"tokyo": False, "lima": False, "rome": False}


@pytest.mark.parametrize("broken_off", range(5))
def test_a_copy_that_is_broken_off_begins_anew_and_never_counts(new_file: Files, broken_off: int):
    engines = [new_file(), new_file()]
    source = new_store(engines[0])
    fill(source)
    trim(source, 4)
    newcomer = open_store(engines[1])
    left = broken_off

    def counted(work: Callable[..., None], *given: object) -> None:
        nonlocal left
        if not left:
            raise StoreUnavailableError("the process ends here")
        left -= 1
        work(*given)

    for name in ("copy", "copy_base", "copy_requests"):
        work = getattr(newcomer, name)
        setattr(newcomer, name, lambda *given, work=work: counted(work, *given))
    with pytest.raises(StoreUnavailableError, match="ends here"):
        copy_log(newcomer, Members(source), 0, source.history())
    newcomer.close()
    newcomer = open_store(engines[1])
    assert newcomer.record() is None
    newcomer.close()
    copied(source, engines[1])
    for table in ("lrq_branches", "lrq_ring_generations", "lrq_ring_productions", "lrq_log_head"):
        assert log_rows(engines[0])[table] == log_rows(engines[1])[table]


@pytest.mark.parametrize("kept", [0, 2, 4, 9])
def test_a_store_with_older_ticks_takes_the_trimmed_log(new_file: Files, kept: int):
    """The store has the first ticks of the same log, and no witness any more."""
    engines = [new_file(), new_file()]
    source, old = new_store(engines[0]), new_store(engines[1], 2)
    ticks = fill(source)
    old.keep(KeepPromise(9))
    keep_after(0, ticks[:kept], old)
    old.close()
    witness_path(engines[1]).unlink()
    trim(source, 6)
    newcomer = copied(source, engines[1])
    assert newcomer.trimmed() == (0 if kept == 9 else 6)
    assert newcomer.read(6, 64) == ticks[6:]


def test_a_trimmed_store_takes_the_whole_log_of_another_history(new_file: Files):
    engines = [new_file(), new_file()]
    source, foreign = new_store(engines[0]), new_store(engines[1], 2)
    fill(foreign)
    trim(foreign, 6)
    foreign.close()
    witness_path(engines[1]).unlink()
    ticks = fill(source)
    newcomer = copied(source, engines[1])
    assert (newcomer.trimmed(), newcomer.read(0, 64)) == (0, ticks)


def test_a_copy_fails_if_its_source_trims_meanwhile(new_file: Files):
    engines = [new_file(), new_file()]
    source = new_store(engines[0])
    fill(source)
    trim(source, 3)
    newcomer = open_store(engines[1])
    with pytest.raises(TrimmedError):
        copy_log(newcomer, Members(source, calls=3, later=7), 0, source.history())
    newcomer.close()
    assert copied(source, engines[1]).trimmed() == 7


def test_the_beginning_of_another_log_is_refused(new_file: Files):
    engines = [new_file(), new_file()]
    source = new_store(engines[0])
    fill(source)
    trim(source, 6)
    newcomer = open_store(engines[1])
    base = source.read_base()
    with pytest.raises(CorruptFrameError, match="contradicts itself"):
        newcomer.copy_base(base._replace(branches=base.branches[:1]))
    with pytest.raises(CorruptFrameError, match="another log"):
        copy_log(newcomer, Members(source), 0, TickHistory(source.history().starts[:1], 9))
    newcomer.copy_base(base)
    late = source.read_requests(0, 7)
    with pytest.raises(CorruptFrameError, match="out of order"):
        newcomer.copy_requests(late)
    with pytest.raises(CorruptFrameError, match="out of order"):
        newcomer.copy_requests(late[:2][::-1])


def test_a_whole_log_has_no_beginning_to_go_on_from(new_file: Files):
    store = new_store(new_file())
    fill(store)
    with pytest.raises(StoreUnavailableError, match="the log is whole"):
        store.read_base()


def test_an_earlier_process_trims_nothing(new_file: Files):
    engine = new_file()
    store = new_store(engine)
    fill(store)
    store.close()
    later = open_store(engine)
    with pytest.raises(StoreTakenError):
        store.trim(6)
    assert later.trimmed() == 0
