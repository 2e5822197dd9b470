"""The look before a trim on PostgreSQL never leaves out a step that would find something, over random histories."""

import random
from functools import partial

import pytest
from sqlalchemy import Engine, delete, insert, text, update

from queues.database import leases
from queues.database.leases import Lease
from queues.database.postgresql import rewriting
from queues.database.tables.sessions import sessions
from queues.database.transactions import reading, writing
from queues.errors import OwnershipLostError, StoreUnavailableError
from queues.send_log import segments
from queues.send_log import ticks as tick_rows
from queues.send_log.port import Retention
from queues.send_log.postgresql import segments as postgresql_segments
from queues.send_log.postgresql import tick_partitions, trim_look
from queues.send_log.postgresql.log import PostgresqlLog
from queues.send_log.postgresql.trim_look import TrimLook
from queues.send_log.reads import trimmed_seq
from queues.send_log.rotation import SegmentLimits
from tests.queues.reading import Reader
from tests.queues.unordered import transmit, trigger_off
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)

STEPS = 60
KEEP = Retention()
UNORDERED = text(
    "SELECT 1 FROM lrq_log_entries e WHERE xid < :upto"
    " AND NOT EXISTS (SELECT 1 FROM lrq_log_commits c WHERE c.xid = e.xid)"
)
AT_ONCE = SegmentLimits(0, 0)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let partitions of ticks get old, and tables bloated, within a few steps."""
    monkeypatch.setattr(segments, "KEPT_TICKS", 3)
    monkeypatch.setattr(tick_rows, "TICKS_A_PARTITION", 2)
    monkeypatch.setattr(rewriting, "_SMALL", 8 * 1024)


def look(site: Engine, lease: Lease) -> tuple[TrimLook, bool]:
    """Return the answers of both looks: that of trim, and whether a rotation is possible."""
    with reading(site) as connection:
        found = trim_look.look(connection, lease, 1)
    with reading(site) as connection:
        return found, trim_look.may_rotate(connection, lease, AT_ONCE)


class History:
    """A log whose only destination is tokyo, and the random steps that change it."""

    def __init__(self, site: Engine, reader: Reader) -> None:
        assert isinstance(reader.log, PostgresqlLog)
        self.site, self.reader, self.log = site, reader, reader.log

    @property
    def end(self) -> int:
        """The end of the last tick."""
        return self.reader.last.end_seq if self.reader.last else 0

    def transmit(self) -> None:
        transmit(self.site, b"x")
        self.reader.drain()

    def transmit_unordered(self) -> None:
        with trigger_off(self.site):
            transmit(self.site, b"lost")

    def acknowledge(self) -> None:
        values = {"client": "policy", "destination": "tokyo", "state": "", "reason": "", "branch": "b", "cut": ""}
        numbers = {"lost_seq": 0, "transferred_rows": 0, "updated_us": 0}
        with self.site.begin() as connection:
            connection.execute(delete(sessions))
            connection.execute(insert(sessions).values(**values, **numbers, acked_seq=self.end))

    def update(self) -> None:
        for number in range(60):
            with self.site.begin() as connection:
                connection.execute(update(sessions).values(updated_us=number))

    def rotate(self) -> None:
        self.log.rotate(self.reader.lease, segment_bytes=1, segment_seconds=0)

    def trim(self) -> None:
        self.log.trim(self.reader.lease, KEEP)

    def require_nothing_missed(self) -> None:
        """Carry out each step that the look leaves out, and require that nothing changes."""
        work, is_possible = look(self.site, self.reader.lease)
        with reading(self.site) as connection:
            assert work.trimmed_seq == trimmed_seq(connection)
        for is_due, step in (
            (work.has_unordered, lambda at: at.execute(UNORDERED, {"upto": work.ended_upto}).first()),
            (work.has_closed, partial(postgresql_segments.trim_one, retention=Retention(seconds=-1.0))),
            (work.has_old_ticks, tick_partitions.empty_one),
            (work.is_bloated, rewriting.rewrite),
            (is_possible, partial(postgresql_segments.rotate, limits=AT_ONCE, retention=None)),
        ):
            if not is_due:
                with writing(self.site) as connection:
                    assert not step(connection)


def test_no_step_that_would_find_something_is_left_out(site: Engine, reader: Reader, chance: random.Random) -> None:
    history = History(site, reader)
    steps = [history.transmit, history.acknowledge, history.rotate, history.trim, history.update]
    for _ in range(STEPS):
        chance.choice([*steps, history.transmit_unordered] if chance.random() < 0.2 else steps)()
        history.require_nothing_missed()


def test_an_idle_log_is_trimmed_without_a_step(site: Engine, reader: Reader) -> None:
    history = History(site, reader)
    for step in (history.transmit, history.acknowledge, history.rotate, history.trim, history.trim):
        step()
    work, is_possible = look(site, reader.lease)
    assert work == TrimLook(False, False, False, history.end, False, work.ended_upto)
    assert not is_possible


def test_unordered_entries_are_found_in_a_log_that_was_empty_before(site: Engine, reader: Reader) -> None:
    history = History(site, reader)
    history.trim()
    history.transmit_unordered()
    # A running transaction of any test holds the end of the look back.
    eventually(lambda: history.log.trim(reader.lease, KEEP).found_unordered == 1)
    assert history.log.trim(reader.lease, KEEP).found_unordered == 0


def test_old_ticks_go_with_a_later_trim_that_finds_no_old_entries(
    site: Engine, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(site, reader)
    monkeypatch.setattr(segments, "KEPT_TICKS", 1_000)
    for _ in range(7):
        for step in (history.transmit, history.acknowledge, history.rotate, history.trim):
            step()
    assert not look(site, reader.lease)[0].has_old_ticks
    monkeypatch.setattr(segments, "KEPT_TICKS", 3)
    assert look(site, reader.lease)[0].has_old_ticks
    history.trim()
    assert not look(site, reader.lease)[0].has_old_ticks


def test_an_idle_log_is_not_looked_at_under_a_lost_lease(site: Engine, reader: Reader) -> None:
    history = History(site, reader)
    history.trim()
    leases.release(site, reader.lease)
    assert leases.acquire(site, reader.lease.name, "another", 60)
    for act in (history.trim, history.rotate):
        with pytest.raises(OwnershipLostError):
            act()


def test_a_run_that_fails_at_unordered_entries_leaves_them_to_the_next_one(
    site: Engine, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(site, reader)
    history.trim()
    history.transmit_unordered()

    def fail(*_: object) -> int:
        raise StoreUnavailableError("the database cannot be used just now")

    def fails() -> bool:
        try:
            history.trim()
        except StoreUnavailableError:
            return True
        return False

    with monkeypatch.context() as patch:
        patch.setattr(PostgresqlLog, "_find_unordered", fail)
        eventually(fails)
    assert history.log.trim(reader.lease, KEEP).found_unordered == 1
