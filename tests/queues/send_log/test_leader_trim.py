"""The trim of a ring's leader: only segments whose ticks both followers hold, and which every sink has acknowledged."""

import pytest
from sqlalchemy import Engine

from queues.clock import now_us
from queues.database import leases
from queues.database.transactions import writing
from queues.names import SiteId
from queues.positions import Position
from queues.send_log.links import set_wish
from queues.send_log.opening import open_log
from queues.send_log.port import Retention, SessionKey
from queues.send_log.reads import trimmed_seq
from queues.send_log.ring.released_log import ReleasedLog
from queues.send_log.ring.tick_contents import TickStamp, content_after
from queues.send_log.sessions import SessionChange, add_session, save_sessions
from queues.states import LinkWish, SessionState
from tests.lr_server.ring.stores import CLIENT, begin, keep_after, log_rows, new_store, transaction

DAY = 86_400.0
WITHIN = Retention(DAY, 2**40)


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Leader:
    """The log of a leader: after the seal, ticks 2 to 7 have one entry for tokyo each."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        #: The followers hold the ticks up to this number.
        self.held = 7
        self.store = new_store(engine)
        self.branch = begin(2, self.store).tick.branch
        self.log = ReleasedLog(engine, open_log(engine), lambda: 7, lambda: self.held)
        lease = leases.acquire(engine, "server", "a server", DAY)
        assert lease is not None
        self.lease = lease
        for _ in range(3):
            for _ in range(2):
                self.take()
            assert self.rotate()

    def take(self) -> None:
        end = self.store.end()
        content = content_after(end, [transaction(b"entry")], TickStamp(end.tick.number + 1, now_us()))
        keep_after(end.tick.number, [content], self.store)

    def rotate(self) -> bool:
        return self.log.rotate(self.lease, 2**40, 0.0)

    def acknowledge(self, site: str, seq: int, *, is_new: bool = True) -> SessionKey:
        key = SessionKey(CLIENT, SiteId(site))
        with writing(self.engine) as connection:
            if is_new:
                add_session(connection, key, SessionState.IDLE, "")
            acked = Position(self.branch, seq)
            save_sessions(connection, [SessionChange(key, SessionState.IDLE, "", 0, acked)])
        return key

    def trim(self, retention: Retention = WITHIN) -> int:
        return self.log.trim(self.lease, retention).seq


@pytest.fixture
def leader(site: Engine) -> Leader:
    return Leader(site)


def test_acknowledged_segments_go(leader: Leader):
    leader.acknowledge("tokyo", 4)
    assert leader.trim() == 4
    rows = log_rows(leader.engine)
    assert [len(rows[f"lrq_log_entries_{number}"]) for number in range(4)] == [0, 0, 2, 0]
    assert leader.store.trimmed() == 5
    assert leader.store.read(5, 64)[0].tick.number == 6


@pytest.mark.parametrize(("held", "seq"), [(0, 0), (2, 0), (3, 2), (4, 2), (5, 4), (7, 6)])
def test_a_segment_stays_until_both_followers_hold_its_ticks(leader: Leader, held: int, seq: int):
    leader.acknowledge("tokyo", 6)
    leader.held = held
    assert leader.trim() == seq
    leader.held = 7
    assert leader.trim() == 6


def test_beyond_retention_a_segment_stays_that_a_follower_lacks(leader: Leader):
    leader.acknowledge("tokyo", 0)
    leader.held = 3
    assert leader.trim(Retention(0.0, 0)) == 2


def test_a_sink_without_entries_keeps_a_segment_until_retention_ends(leader: Leader):
    """The next leader does not know that no entry is for that sink."""
    leader.acknowledge("tokyo", 6)
    leader.acknowledge("lima", 3)
    assert leader.trim() == 2
    assert leader.trim(Retention(0.0, 2**40)) == 6


@pytest.mark.parametrize("gone", ["released", "no peer"])
def test_a_site_without_a_claim_keeps_no_segment(leader: Leader, gone: str):
    leader.acknowledge("tokyo", 6)
    lima = leader.acknowledge("lima", 3)
    with writing(leader.engine) as connection:
        if gone == "released":
            set_wish(connection, [lima], LinkWish.RELEASED)
        else:
            save_sessions(connection, [SessionChange(lima, SessionState.INACTIVE, "", 0, None)])
    assert leader.trim(Retention(DAY, 2**40, unknown_seconds=0.0, peers=frozenset({SiteId("tokyo")}))) == 6


def test_a_destination_without_a_session_keeps_its_entries(leader: Leader):
    assert leader.trim() == 0
    with writing(leader.engine) as connection:
        assert trimmed_seq(connection) == 0


def test_the_next_leader_goes_on_with_segments_that_are_partly_trimmed(leader: Leader):
    assert leader.store.trim(4)
    leader.acknowledge("tokyo", 6)
    assert leader.trim() == 6
    assert not leader.rotate()
    leader.take()
    assert leader.rotate()
