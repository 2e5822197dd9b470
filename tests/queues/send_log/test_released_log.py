"""The log of a ring's member as sessions see it: nothing beyond the newest released tick."""

import pytest
from sqlalchemy import Engine

from queues.errors import UsageError
from queues.names import SiteId
from queues.send_log.opening import open_log
from queues.send_log.port import SessionKey, TickLimits
from queues.send_log.ring.released_log import ReleasedLog
from tests.lr_server.ring.stores import CLIENT, begin, new_store, take, transaction

LIMITS = TickLimits()
OWED = SessionKey(CLIENT, SiteId("tokyo"))


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(site: Engine) -> Engine:
    """A member's file with the seal as tick 1, and three ticks with one entry each."""
    store = new_store(site)
    begin(2, store)
    for payload in (b"one", b"two", b"three"):
        take([transaction(payload)], store)
    return site


@pytest.mark.parametrize("released", [2, 4])
def test_ticks_end_at_the_newest_released_one(file: Engine, released: int):
    log = ReleasedLog(file, open_log(file), lambda: released)
    ticks = log.ticks_after(0, LIMITS)
    assert [tick.number for tick in ticks] == list(range(2, released + 1))
    newest = log.bounds().newest
    assert (newest.number if newest else 0) == released
    assert [row.payload for rows in log.read(OWED, ticks) for row in rows] == [b"one", b"two", b"three"][: len(ticks)]
    assert [group.tick for group in log.followed(ticks)] == ticks
    assert [entry.row.payload for piece in log.read_all(ticks, LIMITS) for entry in piece] == [
        row.payload for rows in log.read(OWED, ticks) for row in rows
    ]


@pytest.mark.parametrize("released", [0, 1])
def test_without_a_released_tick_with_entries_there_is_none(file: Engine, released: int):
    log = ReleasedLog(file, open_log(file), lambda: released)
    newest = log.bounds().newest
    assert (newest.number if newest else 0) == released
    assert log.ticks_after(0, LIMITS) == []


def test_a_tick_is_seen_once_it_is_released(file: Engine):
    released = 2
    log = ReleasedLog(file, open_log(file), lambda: released)
    assert [tick.number for tick in log.ticks_after(1, LIMITS)] == []
    released = 3
    assert [tick.number for tick in log.ticks_after(1, LIMITS)] == [3]


def test_only_the_member_takes_ticks(file: Engine):
    with pytest.raises(UsageError, match="the member of a ring"):
        ReleasedLog(file, open_log(file), lambda: 0).take_tick(None, None, None)


@pytest.mark.parametrize(("change", "given"), [("rotate", (None, 1, 1.0)), ("trim", (None, None))])
def test_a_log_that_is_not_trimmed_refuses_to_be(file: Engine, change: str, given: tuple[object, ...]):
    with pytest.raises(UsageError, match="set trim in the table"):
        getattr(ReleasedLog(file, open_log(file), lambda: 0), change)(*given)
