"""The answer to an order for a replay: from its commit on, the log keeps the entries."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine, update

from lr_server.protocol.histories import SinkHistory, TickKey
from lr_server.protocol.replays import OrderedReplay
from lr_server.session.replays import Replay, answer_order
from queues.database import leases
from queues.database.tables.sessions import sessions
from queues.database.tables.ticks import ticks as stored_ticks
from queues.database.transactions import reading, writing
from queues.errors import OwnershipLostError
from queues.names import ClientName, SiteId
from queues.positions import Position, Tick
from queues.send_log.opening import open_log, segment_reads
from queues.send_log.port import Retention, SessionKey, TickLimits
from queues.send_log.sessions import add_session, find_session, go_back
from queues.send_log.trim_plan import Fate, plan
from queues.states import SessionState
from tests.leading import lead
from tests.queues.reading import Reader
from tests.system.replaying import send

TOKYO = SessionKey(ClientName("policy"), SiteId("tokyo"))


@pytest.fixture
def reader(site: Engine) -> Reader:
    """Give a reader that has taken three ticks of one entry each, which tokyo has acknowledged; a segment is closed."""
    lease = leases.acquire(site, "server", "test", ttl=600)
    assert lease is not None
    reader = Reader(site, lease)
    for number in range(3):
        send(site, str(number))
        reader.drain()
    with writing(site) as connection:
        add_session(connection, TOKYO, SessionState.LOG_ENTRY_SYNC, "")
        connection.execute(update(sessions).values(acked_seq=3))
    assert reader.rotate()
    return reader


def ticks(reader: Reader) -> list[Tick]:
    return [group.tick for group in reader.groups]


def ordered(site: Engine, reader: Reader, **order: int) -> Replay:
    keys = tuple(TickKey(tick.branch, tick.end_seq, tick.uid) for tick in reversed(ticks(reader)))
    sink = SinkHistory(Position(keys[0].branch, 3), boundary_seq=3, applied_seq=3, headers=keys)
    [lease] = lead(site)
    return answer_order(site, TOKYO, lease, sink, OrderedReplay("o", **order), "log")


def acked(site: Engine) -> int:
    with reading(site) as connection:
        found = find_session(connection, TOKYO)
    assert found is not None
    return found.acked_seq


def test_trim_keeps_the_entries_of_a_granted_order_until_they_are_acknowledged_again(
    site: Engine, reader: Reader
) -> None:
    found = ordered(site, reader, from_seq=2)
    first = ticks(reader)[0]
    assert found.back == Position(first.branch, 1)
    header = found.answer.after
    assert (header.branch, header.end_seq, header.uid, header.mark) == (first.branch, 1, first.uid, first.mark)
    assert acked(site) == 1
    assert reader.trim().emptied_segments == 0
    with writing(site) as connection:
        connection.execute(update(sessions).values(acked_seq=3))
    assert reader.trim().emptied_segments == 1


def test_a_refused_order_changes_nothing(site: Engine, reader: Reader) -> None:
    assert reader.trim().emptied_segments == 1
    found = ordered(site, reader, from_seq=2)
    assert found.back is None
    assert found.answer.refusal.startswith("entries up to 3 are trimmed at the source: order those from 4")
    assert acked(site) == 3


def test_only_the_leader_of_the_session_grants(site: Engine, reader: Reader) -> None:
    [lease] = lead(site)
    old = replace(lease, generation=lease.generation - 1)
    sink = SinkHistory(Position(ticks(reader)[0].branch, 3), boundary_seq=3)
    with pytest.raises(OwnershipLostError):
        answer_order(site, TOKYO, old, sink, OrderedReplay("o", from_seq=2), "log")


def test_a_time_is_that_of_the_first_tick_at_or_after_it(site: Engine, reader: Reader) -> None:
    for place, tick in enumerate(ticks(reader)):
        found = ordered(site, reader, since_us=tick.created_us)
        earlier = [each.end_seq for each in ticks(reader)[:place] if each.created_us < tick.created_us]
        assert found.answer.after.end_seq == max(earlier, default=0)
    assert ordered(site, reader, since_us=ticks(reader)[-1].created_us + 1).answer.refusal


def test_a_time_is_that_of_commits_although_the_clock_of_the_server_is_behind(site: Engine, reader: Reader) -> None:
    log = open_log(site)
    [[*commits]] = [[each.row.committed_us for each in part] for part in log.read_all(ticks(reader), TickLimits())]
    with writing(site) as connection:
        connection.execute(update(stored_ticks).values(created_us=stored_ticks.c.created_us - 3_600_000_000))
    for place, moment in enumerate(commits):
        found = ordered(site, reader, since_us=moment)
        earlier = [tick.end_seq for tick, each in zip(ticks(reader)[:place], commits, strict=False) if each < moment]
        assert found.answer.after.end_seq == max(earlier, default=0)
    assert ordered(site, reader, since_us=commits[-1] + 1).answer.refusal


def test_the_plan_of_a_trim_names_segments_that_are_kept_for_replays(site: Engine, reader: Reader) -> None:
    kept = Retention(acknowledged_seconds=600.0)
    assert [each.fate for each in plan(site, kept)] == [Fate.REPLAYABLE]
    assert [each.fate for each in plan(site, Retention())] == [Fate.FREE]
    with writing(site) as connection:
        connection.execute(update(sessions).values(acked_seq=1))
    assert [each.fate for each in plan(site, kept)] == [Fate.KEPT]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_trim_never_judges_a_segment_while_an_order_is_answered(site: Engine, reader: Reader) -> None:
    with writing(site) as connection:
        segment_reads(connection).keep(connection)
        go_back(connection, TOKYO, Position(ticks(reader)[0].branch, 1))
        assert reader.trim().emptied_segments == 0
    assert reader.trim().emptied_segments == 0
    assert acked(site) == 1
