"""An operator has applied entries come again, after a listener was mended."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine

from lr_client import cancel_replay, replay_orders, request_replay, wait_replay
from lr_server import LogReplicationServer
from lrq.cli import link_actions
from queues.clock import now_us
from queues.database import actions
from queues.database.transactions import writing
from queues.errors import InvalidPositionError, UsageError, WaitTimeoutError
from queues.names import ClientName, SiteId
from queues.receive import replay_marks, replays
from queues.receive.parked import parked
from queues.receive.replays import ReplayOrder, ReplayState, ReplayWish
from queues.states import SessionState
from queues.wire.replication_pb2 import NegotiateRequest, NegotiateResponse
from sink.port import Sink
from tests.system.faulty import PassingSink
from tests.system.replaying import Journal, UndoingJournal, check, journal, rows, runs, send, writing_on
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually

#: The source keeps acknowledged entries for an hour.
KEPT: dict[str, Any] = {"acknowledged_retention_seconds": 3600.0, "initial_sync": "log"}


def linked(
    world: World, listener: Journal | None = None, *, options: dict[str, Any] = KEPT, **subscribed: Any
) -> LogReplicationServer:
    """Send from paris to tokyo over TCP, with a listener that journals; return the server of paris."""
    journal.metadata.create_all(world.site("tokyo"))
    tokyo = world.server("tokyo")
    world.subscribe("tokyo", listener or UndoingJournal(), **subscribed)
    return world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, **options)


def sent_one_by_one(world: World, count: int, first: int = 0) -> list[int]:
    """Send entries in ticks of their own until all are applied; return their numbers."""
    for number in range(first, first + count):
        send(world.site("paris"), f"entry {number}")
        eventually(lambda number=number: rows(world.site("tokyo"))[-1:] and texts(world)[-1] == f"entry {number}")
    return [seq for kind, seq, _ in rows(world.site("tokyo")) if kind == "log"][-count:]


def texts(world: World) -> list[str]:
    return [text for kind, _, text in rows(world.site("tokyo")) if kind == "log"]


def replayed(site: Engine, **order: Any) -> ReplayOrder:
    """Order a replay, and wait for its end."""
    return wait_replay(site, request_replay(site, "policy", "paris", person="ada", **order), 30)


def names(count: int) -> list[str]:
    return [f"entry {number}" for number in range(count)]


# --- entries come again ---------------------------------------------------------------------------------------


def test_applied_entries_come_again_in_order_after_on_rollback(world: World) -> None:
    linked(world)
    tokyo, seqs = world.site("tokyo"), sent_one_by_one(world, 5)
    done = replayed(tokyo, start=seqs[2])
    words = f"entries from {seqs[2]} to {seqs[4]} come again"
    assert (done.state, done.outcome) == (ReplayState.BEGUN, words)
    eventually(lambda: len(texts(world)) == 8)
    send(world.site("paris"), "entry 5")
    eventually(lambda: len(texts(world)) == 9)
    check(rows(tokyo), names(6), replays=1)
    assert [row[:2] for row in rows(tokyo) if row[0] == "back"] == [("back", seqs[2] - 1)]
    [ended, ordered] = actions.newest(tokyo)
    assert (ordered.person, ordered.action) == (ended.person, ended.action) == ("ada", "replay")
    assert ordered.outcome == f"replay of policy from paris ordered: entries from {seqs[2]} on"
    assert ended.outcome == f"replay of policy from paris begun: {words}"
    assert [each.order_id for each in replay_orders(tokyo)] == [done.order_id]


def test_a_listener_without_on_rollback_applies_entries_over_the_present_rows_if_asked_to(world: World) -> None:
    linked(world, Journal())
    tokyo, seqs = world.site("tokyo"), sent_one_by_one(world, 4)
    with pytest.raises(UsageError, match="no on_rollback"):
        request_replay(tokyo, "policy", "paris", start=seqs[1])
    assert replayed(tokyo, start=str(seqs[1]), undo=False).outcome.endswith("come again, without on_rollback")
    eventually(lambda: len(texts(world)) == 7)
    check(rows(tokyo), names(4), replays=1)
    assert [kind for kind, _, _ in rows(tokyo)] == ["log"] * 7


def test_entries_since_a_time_come_again(world: World) -> None:
    linked(world)
    tokyo = world.site("tokyo")
    sent_one_by_one(world, 3)
    since = datetime.fromtimestamp(now_us() / 1_000_000, tz=UTC)
    sent_one_by_one(world, 2, first=3)
    assert replayed(tokyo, since=since).state is ReplayState.BEGUN
    eventually(lambda: len(texts(world)) == 7)
    check(rows(tokyo), names(5), replays=1)
    later = datetime.fromtimestamp(now_us() / 1_000_000 + 60, tz=UTC)
    refused = replayed(tokyo, since=later)
    assert (refused.state, refused.outcome) == (
        ReplayState.REFUSED,
        "the source has taken no entries since then: there is nothing to send again",
    )


def test_the_whole_log_comes_again(world: World) -> None:
    linked(world)
    sent_one_by_one(world, 3)
    assert replayed(world.site("tokyo"), start=1).state is ReplayState.BEGUN
    eventually(lambda: len(texts(world)) == 6)
    check(rows(world.site("tokyo")), names(3), replays=1)


def test_entries_far_behind_the_headers_that_the_sink_remembers_come_again(world: World) -> None:
    linked(world)
    tokyo, seqs = world.site("tokyo"), sent_one_by_one(world, 6)
    # As after thousands of ticks.
    world.execute("tokyo", "DELETE FROM lrq_receive_headers WHERE seq < :newest", newest=seqs[5])
    assert replayed(tokyo, start=seqs[2]).state is ReplayState.BEGUN
    eventually(lambda: len(texts(world)) == 10)
    world.servers[0].stop()
    send(world.site("paris"), "entry 6")
    again = world.server("tokyo", listen=list(world.servers[0]._settings.listen) and [endpoint_of(world)])
    eventually(lambda: len(texts(world)) == 11)
    check(rows(tokyo), names(7), replays=1)
    assert again is world.servers[-1]


def endpoint_of(world: World) -> str:
    """Return the endpoint at which paris looks for tokyo."""
    return str(world.servers[1]._settings.peers["tokyo"])


def test_an_idle_source_hears_of_an_order_without_a_frame_of_its_own(world: World) -> None:
    linked(world, options={**KEPT, "heartbeat_seconds": 300.0, "stall_seconds": 600.0})
    seqs = sent_one_by_one(world, 2)
    eventually(lambda: sessions_of(world.servers[1])["tokyo"]["acked_seq"] == seqs[1])
    assert replayed(world.site("tokyo"), start=seqs[1]).state is ReplayState.BEGUN
    eventually(lambda: len(texts(world)) == 3)


def test_an_idle_source_in_the_same_process_hears_of_an_order(world: World) -> None:
    journal.metadata.create_all(world.site("tokyo"))
    world.server("tokyo", listen=[])
    world.subscribe("tokyo", UndoingJournal())
    options = {**KEPT, "heartbeat_seconds": 300.0, "stall_seconds": 600.0}
    world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, **options)
    seqs = sent_one_by_one(world, 2)
    eventually(lambda: sessions_of(world.servers[1])["tokyo"]["acked_seq"] == seqs[1])
    assert replayed(world.site("tokyo"), start=seqs[1]).state is ReplayState.BEGUN
    eventually(lambda: len(texts(world)) == 3)


class OrderedLate(PassingSink):
    """Orders a replay as a session that has a snapshot asks again, and passes that on after the server's look."""

    def __init__(self, sink: Sink, site: Engine, has_looked: Callable[[], object]) -> None:
        super().__init__(sink)
        self._site = site
        self._has_looked = has_looked
        self.has_ordered = False

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        with writing(self._site) as connection:
            marks = replay_marks.read_marks(connection, ClientName("policy"), SiteId("paris"))
            due = marks is not None and marks.floor_seq > 0 and not self.has_ordered
            if due:
                replays.place(connection, marks.queue_id, ReplayWish(from_seq=1), "ada")
                self.has_ordered = True
        if due:
            eventually(self._has_looked)
        return self._sink.negotiate(request)


def test_an_order_that_meets_a_session_between_two_lanes_is_answered(world: World) -> None:
    recorder = world.subscribe("tokyo")
    tokyo = world.site("tokyo")
    sink = world.behind("tokyo", lambda whole: OrderedLate(whole, tokyo, lambda: world.servers[0]._replays._ended))
    world.provide("paris", Messages(lambda _: [b"a", b"b"]))
    # With a second endpoint, snapshots have a lane of their own.
    ways = {"peers": {"tokyo": "local:tokyo,tcp://127.0.0.1:9"}, "snapshot_endpoints": {"tokyo": "local:tokyo"}}
    world.server("paris", listen=[], heartbeat_seconds=300.0, stall_seconds=600.0, **ways)
    world.transmit("paris", b"first", to=["tokyo"])
    eventually(lambda: sink.has_ordered)
    eventually(lambda: [each.state for each in replay_orders(tokyo)] == [ReplayState.REFUSED])
    world.transmit("paris", b"later", to=["tokyo"])
    eventually(lambda: recorder.log("paris")[-1:] == [b"later"])


@pytest.mark.parametrize("undo", [True, False])
def test_parked_entries_behind_the_position_come_again_and_earlier_ones_stay(world: World, *, undo: bool) -> None:
    class Refusing(UndoingJournal):
        refuses = True

        def process_updates_in_log_entry_sync(self, session: Any, source_id: str, entries: Any) -> bool:
            bad = {b"entry 1", b"entry 3"} if self.refuses else set()
            if bad.intersection(entry.opaque_payload for entry in entries):
                return False
            return super().process_updates_in_log_entry_sync(session, source_id, entries)

    listener = Refusing()
    linked(world, listener, on_failure="park", max_tries=1, backoff=0.01)
    tokyo = world.site("tokyo")
    for number in range(5):
        send(world.site("paris"), f"entry {number}")
        eventually(lambda number=number: len(parked(tokyo)) + len(texts(world)) == number + 1)
    listener.refuses = False
    earlier, later = (each.sequence for each in parked(tokyo))
    replayed(tokyo, start=later, undo=undo)
    eventually(lambda: texts(world)[-2:] == ["entry 3", "entry 4"])
    assert [each.sequence for each in parked(tokyo)] == [earlier]


def test_a_later_snapshot_and_an_earlier_rollback_agree_with_a_replay(world: World) -> None:
    linked(world)
    tokyo, seqs = world.site("tokyo"), sent_one_by_one(world, 3)
    replayed(tokyo, start=seqs[1])
    replayed(tokyo, start=seqs[0])
    eventually(lambda: runs(rows(tokyo))[-1][-1:] == [(seqs[2], "entry 2")])
    world.provide("paris", Messages(lambda _: [b"row"]))
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: texts(world)[-1] == "row")
    in_log_sync(world.servers[1], "tokyo")
    sent_one_by_one(world, 2, first=3)
    with pytest.raises(UsageError, match=r"came with a snapshot: order those from"):
        request_replay(tokyo, "policy", "paris", start=seqs[1])
    count = len(texts(world))
    # The first of these ticks ends the passage of the snapshot's cut.
    assert replayed(tokyo, start=rows(tokyo)[-1][1]).state is ReplayState.BEGUN
    eventually(lambda: texts(world)[count:] == ["entry 4"])


@pytest.mark.parametrize("undo", [True, False])
def test_entries_come_again_exactly_once_while_writers_go_on(
    world: World, chance: random.Random, *, undo: bool
) -> None:
    linked(world, UndoingJournal() if undo else Journal())
    tokyo, sent = world.site("tokyo"), list[str]()
    with writing_on(world.site("paris"), sent):
        for number in range(1, 4):
            least = len(texts(world)) + 15
            eventually(lambda least=least: len(texts(world)) > least)
            applied = runs(rows(tokyo))[-1]
            done = replayed(tokyo, start=chance.choice(applied)[0], undo=undo)
            assert done.state is ReplayState.BEGUN, done.outcome
            # A replay that a later one overtakes would have no run of its own.
            eventually(lambda number=number: len(runs(rows(tokyo))) == number + 1 and runs(rows(tokyo))[-1])
    eventually(lambda: runs(rows(tokyo))[-1][-1:] and texts(world)[-1] == sent[-1])
    check(rows(tokyo), sent, replays=3)


@pytest.mark.parametrize("undo", [True, False])
def test_all_shards_go_back_together_and_each_key_keeps_its_order(world: World, *, undo: bool) -> None:
    linked(world, UndoingJournal() if undo else Journal(), shards=3)
    tokyo = world.site("tokyo")
    for number in range(60):
        send(world.site("paris"), f"key{number % 7} {number}", key=f"key{number % 7}")
    eventually(lambda: len(texts(world)) == 60)
    applied = rows(tokyo)
    first = next(seq for _, seq, text in applied if text == "key2 30")
    wanted = {text for _, seq, text in applied if seq >= first}
    assert len(wanted) >= 30
    assert replayed(tokyo, start=first, undo=undo).state is ReplayState.BEGUN
    eventually(lambda: wanted <= {text for text, times in Counter(texts(world)).items() if times == 2})
    for key in range(7):
        own = [int(text.split()[1]) for text in texts(world) if text.startswith(f"key{key} ")]
        place = next(place for place, number in enumerate(own) if number in own[:place])
        assert own[:place] == list(range(key, 60, 7))
        assert own[place:] == list(range(own[place], 60, 7))


# --- refusals -------------------------------------------------------------------------------------------------


def test_the_site_refuses_an_order_that_it_knows_to_be_impossible(world: World) -> None:
    linked(world)
    tokyo = world.site("tokyo")
    [*_, last] = sent_one_by_one(world, 2)
    with pytest.raises(UsageError, match="no entry of client other has come from paris"):
        request_replay(tokyo, "other", "paris", start=1)
    with pytest.raises(UsageError, match=f"entries up to {last} are applied, so none after {last} can come again"):
        request_replay(tokyo, "policy", "paris", start=last + 1)
    for wrong in (0, -1, "a", "1.5", "x@", 2**63):
        with pytest.raises(InvalidPositionError):
            request_replay(tokyo, "policy", "paris", start=wrong)
    with pytest.raises(UsageError, match="either the first entry or a time"):
        request_replay(tokyo, "policy", "paris")
    assert replay_orders(tokyo) == []
    assert actions.newest(tokyo) == []


def test_an_ended_link_brings_nothing_again(world: World) -> None:
    paris = linked(world)
    [first] = sent_one_by_one(world, 1)
    link_actions.end(world.site("paris"), SiteId("tokyo"), None)
    eventually(lambda: sessions_of(paris)["tokyo"]["state"] == SessionState.FINISHED)
    with pytest.raises(UsageError, match="the link has ended"):
        request_replay(world.site("tokyo"), "policy", "paris", start=first)


def test_the_source_refuses_trimmed_entries_and_no_site_needs_a_snapshot(world: World) -> None:
    paris = linked(world, options={"initial_sync": "log", "segment_seconds": 0.1, "trim_seconds": 0.1})
    tokyo = world.site("tokyo")
    first, *_ = sent_one_by_one(world, 1)
    for number in range(1, 40):
        send(world.site("paris"), f"entry {number}")
        if paris.site_status().log.trimmed_seq > first:
            break
        eventually(lambda number=number: texts(world)[-1] == f"entry {number}")
        world.servers[1]._source.look()  # type: ignore[union-attr]
    eventually(lambda: paris.site_status().log.trimmed_seq > first)
    count = len(eventually(lambda: texts(world)))
    done = replayed(tokyo, start=first)
    assert done.state is ReplayState.REFUSED
    assert "are trimmed at the source: order those from" in done.outcome
    in_log_sync(paris, "tokyo")
    assert world.execute("paris", "SELECT count(*) FROM lrq_snapshots") == [(0,)]
    send(world.site("paris"), "after")
    eventually(lambda: texts(world)[-1] == "after")
    assert len(runs(rows(tokyo))) == 1
    assert len(texts(world)) >= count
    assert actions.newest(tokyo)[0].outcome.startswith("replay of policy from paris refused: entries up to")


def test_a_member_of_replicas_and_another_branch_are_refused_by_the_source(world: World) -> None:
    journal.metadata.create_all(world.site("tokyo"))
    tokyo = world.server("tokyo")
    world.subscribe("tokyo", UndoingJournal())
    options = {**KEPT, "peers": {"tokyo": tokyo.endpoints[0]}}
    paris = world.server("paris", **options)
    [first] = sent_one_by_one(world, 1)
    done = replayed(world.site("tokyo"), start=f"{'0' * 32}@{first}")
    assert "is not in the source's history, which has" in done.outcome
    paris.stop()
    paris = world.server("paris", **options, replicas={"east": ["tokyo"]})
    in_log_sync(paris, "tokyo")
    done = replayed(world.site("tokyo"), start=first)
    assert done.outcome.startswith("the site is a member of the replicas east")
    assert texts(world) == ["entry 0"]


# --- orders that wait -----------------------------------------------------------------------------------------


def test_an_order_stands_until_the_source_connects_and_can_be_withdrawn(world: World) -> None:
    paris = linked(world)
    tokyo, seqs = world.site("tokyo"), sent_one_by_one(world, 3)
    peers = dict(paris._settings.peers)
    paris.stop()
    order = request_replay(tokyo, "policy", "paris", start=seqs[1], person="ada")
    with pytest.raises(WaitTimeoutError, match="paris has not answered for 0 s: the order stands"):
        wait_replay(tokyo, order, 0)
    assert cancel_replay(tokyo, "policy", "paris", person="eve").state is ReplayState.CANCELLED
    with pytest.raises(UsageError, match="no order for a replay of policy from paris waits"):
        cancel_replay(tokyo, "policy", "paris")
    assert actions.newest(tokyo)[0].person == "eve"
    replaced = request_replay(tokyo, "policy", "paris", start=seqs[0])
    later = request_replay(tokyo, "policy", "paris", start=seqs[2])
    with pytest.raises(UsageError, match="was replaced or forgotten"):
        wait_replay(tokyo, replaced, 0)
    world.server("paris", peers=peers, **KEPT)
    assert wait_replay(tokyo, later, 30).state is ReplayState.BEGUN
    eventually(lambda: len(texts(world)) == 4)
    check(rows(tokyo), names(3), replays=1)
