"""Links that end: every entry of before arrives, then the end of the stream, then nothing more."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from lr_server import LogReplicationServer
from lrq.cli import link_actions
from lrq.cli.links import list_links
from queues.browse.unknown import unknown_destinations
from queues.database import tables
from queues.database.transactions import reading
from queues.errors import LinkEndedError
from queues.names import ClientName, SiteId
from queues.send_log.links import every_link
from queues.send_log.sessions import every_session
from queues.shard_maps import new_map
from queues.states import SessionState
from sink.port import Sink
from tests.system.world import Messages, Recorder, World, in_log_sync, sessions_of
from tests.waiting import eventually

TOKYO = SiteId("tokyo")
BOTH = ["outgoing", "incoming"]


@pytest.fixture
def paris(world: World) -> LogReplicationServer:
    """Give the server of paris, which replicates to tokyo and lima from the beginning of its log."""
    world.begun("paris", "tokyo", "lima")
    server = world.link("paris", "tokyo", "lima", initial_sync="log", clients=["policy"])
    in_log_sync(server, "tokyo", "lima")
    return server


def end(world: World, site: str = "tokyo", client: str | None = None) -> None:
    link_actions.end(world.site("paris"), SiteId(site), None if client is None else ClientName(client))


def begin(world: World) -> None:
    link_actions.begin(world.site("paris"), TOKYO, None)


def wish(world: World, site: str = "tokyo") -> str:
    with reading(world.site("paris")) as connection:
        return next((row.wish.value for row in every_link(connection) if row.destination == site), "running")


def session_state(world: World, site: str = "tokyo") -> str:
    with reading(world.site("paris")) as connection:
        return next((row.state.value for row in every_session(connection) if row.destination == site), "none")


def ended(recorder: Recorder) -> bool:
    return bool(recorder.heard.get("paris")) and recorder.heard["paris"][-1] == ("end", b"")


class Writer:
    """Commits entries for one site until the link has ended; keeps the payloads that were committed."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.committed: list[bytes] = []
        self.error: Exception | None = None
        self._world = world
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        try:
            while True:
                payload = f"{self.name} {number}".encode()
                self._world.transmit("paris", payload, to=["tokyo"])
                self.committed.append(payload)
                number += 1
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def join(self) -> None:
        self._thread.join(60)
        assert isinstance(self.error, LinkEndedError), self.error


@contextmanager
def open_transaction(world: World, payload: bytes) -> Iterator[None]:
    """Transmit to tokyo at once; commit at the end of the block."""
    with Session(world.site("paris")) as session, session.begin():
        RoutingQueueSenderClient("policy").transmit_log_entry_message(session, payload, ["tokyo"])
        yield


def test_everything_committed_before_the_end_arrives_and_the_end_is_last(
    world: World, paris: LogReplicationServer
) -> None:
    recorder = world.subscribe("tokyo")
    writers = [Writer(world, f"writer {number}") for number in range(3)]
    eventually(lambda: all(len(writer.committed) > 20 for writer in writers))
    end(world)
    for writer in writers:
        writer.join()
    world.transmit("paris", b"for lima", to=["lima"])
    eventually(lambda: ended(recorder))
    for writer in writers:
        own = [payload for payload in recorder.log("paris") if payload.startswith(f"{writer.name} ".encode())]
        assert own == writer.committed
    assert recorder.kinds("paris") == [f"log {sum(len(writer.committed) for writer in writers)}", "end 1"]
    eventually(lambda: session_state(world) == SessionState.FINISHED)
    eventually(lambda: wish(world) == "ended")
    eventually(lambda: sessions_of(paris)["tokyo"]["lag"]["entries"] == 0)
    # The other link goes on, and its server is not disturbed.
    paris.drain(timeout=20)
    assert sessions_of(paris)["lima"]["state"] == SessionState.LOG_ENTRY_SYNC
    assert recorder.heard["paris"][-1] == ("end", b"")
    assert recorder.errors == []


def look_at_links(server: LogReplicationServer) -> None:
    """Wait until the server has looked for the ends of its draining links a few times."""
    assert server._source is not None
    supervisor = server._source.supervisor
    for _ in range(4):
        eventually(lambda before=supervisor.looked_from: supervisor.looked_from > before)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_an_end_waits_for_open_transactions_that_have_transmitted(world: World, paris: LogReplicationServer) -> None:
    recorder = world.subscribe("tokyo")
    with open_transaction(world, b"slow"):
        end(world)
        with pytest.raises(LinkEndedError):
            world.transmit("paris", b"late", to=["tokyo"])
        paris.drain(timeout=20, until=world.transmit("paris", b"for lima", to=["lima"]))
        look_at_links(paris)
        assert not ended(recorder)
        assert wish(world) == "draining"
    eventually(lambda: ended(recorder))
    assert recorder.kinds("paris") == ["log 1", "end 1"]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_transaction_with_an_old_snapshot_transmits_nothing_after_the_end(
    world: World, paris: LogReplicationServer
) -> None:
    recorder = world.subscribe("tokyo")
    sender = RoutingQueueSenderClient("policy")
    world.transmit("paris", b"one", to=["tokyo"])
    with world.site("paris").connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.execute(text("SELECT count(*) FROM lrq_site"))
        end(world)
        eventually(lambda: ended(recorder))
        with pytest.raises(Exception, match=r"could not serialize"):
            sender.transmit_log_entry_message(connection, b"late", ["tokyo"])
        connection.rollback()
        connection.execute(text("SELECT count(*) FROM lrq_site"))
        with pytest.raises(Exception, match="has ended"):
            connection.execute(text("SELECT lrq_transmit('policy', 'x'::bytea, ARRAY['tokyo'])"))
    paris.drain(timeout=20)
    assert recorder.kinds("paris") == ["log 1", "end 1"]


def test_a_link_without_an_entry_ends_too(world: World, paris: LogReplicationServer) -> None:
    recorder = world.subscribe("tokyo")
    end(world)
    eventually(lambda: ended(recorder))
    assert recorder.kinds("paris") == ["end 1"]
    eventually(lambda: wish(world) == "ended")


def test_a_link_begins_again_and_ends_again(world: World, paris: LogReplicationServer) -> None:
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    end(world)
    eventually(lambda: ended(recorder) and session_state(world) == SessionState.FINISHED)
    begin(world)
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1", b"2"])
    in_log_sync(paris, "tokyo")
    end(world)
    eventually(lambda: recorder.kinds("paris") == ["log 1", "end 1", "log 1", "end 1"])


def test_a_link_that_begins_again_while_it_drains_is_not_ended(world: World, paris: LogReplicationServer) -> None:
    recorder = world.subscribe("tokyo")
    end(world)
    begin(world)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    in_log_sync(paris, "tokyo")
    assert recorder.heard["paris"][-1] == ("log", b"1")


def test_an_end_that_the_operator_has_taken_back_is_not_sent(world: World, paris: LogReplicationServer) -> None:
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    source = paris._source
    assert source is not None
    session = next(each for each in source.supervisor.sessions() if each.owed.destination == "tokyo")
    session.note_end(end=1, order=7)
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1", b"2"])
    in_log_sync(paris, "tokyo")
    assert recorder.heard["paris"] == [("log", b"1"), ("log", b"2")]


def test_a_link_that_begins_and_ends_again_at_once_loses_nothing(world: World, paris: LogReplicationServer) -> None:
    recorder = world.subscribe("tokyo")
    for number in range(20):
        end(world)
        begin(world)
        world.transmit("paris", b"%d" % number, to=["tokyo"])
    end(world)
    eventually(lambda: wish(world) == "ended" and ended(recorder))
    eventually(lambda: recorder.log("paris") == [b"%d" % number for number in range(20)])
    eventually(lambda: ended(recorder))


def test_the_end_waits_for_a_subscriber_that_comes_later(world: World, paris: LogReplicationServer) -> None:
    world.transmit("paris", b"1", to=["tokyo"])
    end(world)
    eventually(lambda: session_state(world) == SessionState.FINISHED)
    (queue,) = list_links(world.site("tokyo")).incoming
    assert queue.state.value == "ending"
    recorder = world.subscribe("tokyo")
    eventually(lambda: recorder.kinds("paris") == ["log 1", "end 1"])
    eventually(lambda: list_links(world.site("tokyo")).incoming[0].state.value == "ended")


def test_an_end_that_the_listener_fails_is_told_again(world: World, paris: LogReplicationServer) -> None:
    class Failing(Recorder):
        failures = 2

        def on_stream_end(self, session: Session, source_id: str) -> None:
            if self.failures:
                self.failures -= 1
                raise ValueError("not yet")
            super().on_stream_end(session, source_id)

    recorder = Failing()
    world.subscribe("tokyo", recorder, backoff=0.01)
    world.transmit("paris", b"1", to=["tokyo"])
    end(world)
    eventually(lambda: recorder.kinds("paris") == ["log 1", "end 1"])
    assert len(recorder.errors) == 2


def test_parked_entries_delay_the_end(world: World, paris: LogReplicationServer) -> None:
    from queues.receive.parked import discard_parked, parked

    class Counting(Recorder):
        """Counts the parked entries at the end of the stream."""

        parked_at_end: int | None = None

        def on_stream_end(self, session: Session, source_id: str) -> None:
            self.parked_at_end = session.execute(text("SELECT count(*) FROM lrq_parked_entries")).scalar_one()
            super().on_stream_end(session, source_id)

    recorder = Counting()
    recorder.obey = lambda _session, _source, entries: all(entry.opaque_payload != b"bad" for entry in entries)
    world.subscribe("tokyo", recorder, backoff=0.01, on_failure="park", max_tries=2)
    world.transmit("paris", b"bad", to=["tokyo"])
    world.transmit("paris", b"good", to=["tokyo"])
    end(world)
    eventually(lambda: session_state(world) == SessionState.FINISHED)
    (each,) = eventually(lambda: parked(world.site("tokyo")))
    eventually(lambda: recorder.kinds("paris") == ["log 1"])
    assert "parked" in list_links(world.site("tokyo")).incoming[0].reason
    discard_parked(world.site("tokyo"), each.id)
    eventually(lambda: recorder.kinds("paris") == ["log 1", "end 1"])
    assert recorder.parked_at_end == 0


def test_a_link_ends_after_its_first_snapshot(world: World) -> None:
    provider = Messages(lambda _context: [b"a", b"b"], hold_after=1)
    world.link("paris", "tokyo", initial_sync="snapshot")
    world.provide("paris", provider)
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    assert provider.held.wait(30)
    world.transmit("paris", b"2", to=["tokyo"])
    end(world)
    with pytest.raises(LinkEndedError), world.site("paris").begin() as connection:
        world.client.request_snapshot_sync(connection, "tokyo")
    provider.go_on.set()
    eventually(lambda: ended(recorder))
    assert recorder.snapshot("paris") == [b"a", b"b"]
    assert recorder.log("paris") in ([b"2"], [b"1", b"2"])
    assert recorder.kinds("paris")[-1] == "end 1"


class OldSink:
    """A sink of an earlier version: it does not know the end of a stream."""

    def __init__(self, inner: Sink) -> None:
        self.inner = inner
        self.is_old = True

    def negotiate(self, request):
        answer = self.inner.negotiate(request)
        if self.is_old:
            answer.takes_end = False
        return answer

    def replicate(self, frames):
        def checked():
            for frame in frames:
                assert not (self.is_old and frame.HasField("end_of_stream"))
                yield frame

        return self.inner.replicate(checked())

    def close(self) -> None:
        self.inner.close()


def test_an_older_sink_gets_every_entry_and_the_end_after_its_upgrade(world: World) -> None:
    sink = world.behind("tokyo", OldSink)
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log")
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    end(world, client="policy")
    eventually(lambda: "upgrade lrq there" in sessions_of(paris).get("tokyo", {}).get("reason", ""))
    assert sessions_of(paris)["tokyo"]["state"] == SessionState.DRAINING
    eventually(lambda: recorder.kinds("paris") == ["log 1"])
    sink.is_old = False
    source = paris._source
    assert source is not None
    for session in source.supervisor.sessions():
        session.reconnect("upgraded")
    eventually(lambda: recorder.kinds("paris") == ["log 1", "end 1"])


def counts(world: World, site: str) -> dict[str, int]:
    """Count the rows of all tables of a site."""
    with reading(world.site(site)) as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables.metadata.sorted_tables
        }


#: The tables of the log itself, which other links share, and of the servers.
SHARED = {
    "lrq_tag_sets", "lrq_tag_set_members", "lrq_ticks", "lrq_leases", "lrq_servers", "lrq_ranges", "lrq_known_sites",
    "lrq_snapshot_providers",
}  # fmt: skip


def test_a_forgotten_link_leaves_nothing_at_both_sites(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="snapshot")
    before = {site: counts(world, site) for site in ("paris", "tokyo")}
    world.provide("paris", Messages(lambda _context: [b"a"]))
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.snapshot("paris") == [b"a"])
    in_log_sync(paris, "tokyo")
    end(world)
    eventually(lambda: ended(recorder) and wish(world) == "ended")
    eventually(lambda: list_links(world.site("tokyo")).incoming[0].state.value == "ended")
    for site, other in (("paris", "tokyo"), ("tokyo", "paris")):
        link_actions.forget(world.site(site), SiteId(other), None, force=False, ways=BOTH)

    def left(site: str) -> dict[str, int]:
        now = counts(world, site)
        return {name: now[name] - before[site][name] for name in now if now[name] != before[site][name]}

    assert {name: number for name, number in left("tokyo").items() if name not in SHARED} == {}
    # Only the wish itself is left: nothing begins the link again, and senders are refused.
    assert {name: number for name, number in left("paris").items() if name not in SHARED} == {"lrq_link_wishes": 1}
    paris.drain(timeout=20)
    assert sessions_of(paris) == {}
    with pytest.raises(LinkEndedError):
        world.transmit("paris", b"late", to=["tokyo"])


def test_an_ended_link_of_several_shards_ends_last_and_leaves_no_row_of_its_queue(
    world: World, paris: LogReplicationServer
) -> None:
    recorder = world.subscribe("tokyo", shards=3)
    sender = RoutingQueueSenderClient("policy")
    for number in range(60):
        with Session(world.site("paris")) as session, session.begin():
            payload = str(number).encode()
            sender.transmit_log_entry_message(session, payload, ["tokyo"], partition_key=f"key{number % 7}")
    end(world)
    eventually(lambda: ended(recorder) and session_state(world) == SessionState.FINISHED)
    assert sorted(recorder.log("paris")) == sorted(str(number).encode() for number in range(60))
    link_actions.forget(world.site("tokyo"), SiteId("paris"), None, force=False, ways=["incoming"])
    left = counts(world, "tokyo")
    assert {name: left[name] for name in left if name.startswith("lrq_rec") and left[name]} == {}
    assert (left["lrq_shard_marks"], left["lrq_shard_changes"], left["lrq_shard_failures"]) == (0, 0, 0)


def test_the_end_of_a_stream_waits_for_the_slowest_shard(world: World, paris: LogReplicationServer) -> None:
    slow, going = b"key3", threading.Event()
    recorder = Recorder()
    recorder.obey = lambda _session, _source, entries: (
        going.is_set() or all(not entry.opaque_payload.startswith(slow) for entry in entries)
    )
    world.subscribe("tokyo", recorder, shards=3, backoff=0.01)
    sender, keys = RoutingQueueSenderClient("policy"), [f"key{number}" for number in range(9)]
    for key in keys * 5:
        with Session(world.site("paris")) as session, session.begin():
            sender.transmit_log_entry_message(session, f"{key} ".encode(), ["tokyo"], partition_key=key)
    end(world)
    eventually(lambda: session_state(world) == SessionState.FINISHED)
    owners = new_map(1, 3, "hash")
    others = {key for key in keys if owners.owners[owners.slot(key)] != owners.owners[owners.slot(slow.decode())]}
    eventually(
        lambda: len([text for text in recorder.log("paris") if text.decode().strip() in others]) == 5 * len(others)
    )
    eventually(lambda: len(recorder.errors) > 3)
    assert not ended(recorder)
    going.set()
    eventually(lambda: ended(recorder))
    assert sorted(recorder.log("paris")) == sorted(f"{key} ".encode() for key in keys * 5)
    assert [kind for kind, _ in recorder.heard["paris"]].count("end") == 1


def test_a_forgotten_link_has_no_claim_and_begins_only_on_order(world: World, paris: LogReplicationServer) -> None:
    recorder = world.subscribe("lima")
    with pytest.raises(Exception, match="not finished"):
        link_actions.forget(world.site("paris"), TOKYO, None, force=False, ways=BOTH)
    world.transmit("paris", b"1", to=["tokyo", "lima"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    done = link_actions.forget(world.site("paris"), TOKYO, None, force=True, ways=BOTH)
    assert done.links == [("policy", "tokyo")]
    eventually(lambda: "tokyo" not in sessions_of(paris))
    source = paris._source
    assert source is not None

    def trimmed() -> int:
        world.transmit("paris", b"more", to=["lima"])
        paris.drain(timeout=20)
        paris.status()
        source.trim()
        return paris.site_status().log.trimmed_seq

    paris_settings = paris._settings
    assert paris_settings.retention_seconds > 1000
    with world.site("paris").begin() as connection:
        connection.execute(tables.log.log_head.update().values(opened_us=0))
    eventually(lambda: trimmed() > 1)
    with reading(world.site("paris")) as connection:
        assert unknown_destinations(connection) == []
    assert "tokyo" not in sessions_of(paris)
    link_actions.forget(world.site("tokyo"), SiteId("paris"), None, force=True, ways=BOTH)
    begin(world)
    world.transmit("paris", b"again", to=["tokyo"])
    # Entries of before are gone; with initial_sync "log" the link begins all the same.
    at_tokyo = world.subscribe("tokyo")
    eventually(lambda: b"again" in at_tokyo.log("paris"))


def test_a_link_that_is_forgotten_and_begun_at_once_has_a_session_again(world: World) -> None:
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"], snapshot_poll_seconds=2.0)
    in_log_sync(paris, "tokyo")
    recorder = world.subscribe("tokyo")
    supervisor = paris._roles.source.supervisor  # type: ignore[union-attr]
    before = supervisor.turned
    eventually(lambda: supervisor.turned != before)
    # The server does not look in between.
    link_actions.forget(world.site("paris"), TOKYO, None, force=True, ways=["outgoing"])
    begin(world)
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"after"])
    paris.drain(timeout=30)
    eventually(lambda: session_state(world) == "log-entry sync")


def test_a_removed_queue_is_followed_no_more_and_a_new_one_is(world: World, paris: LogReplicationServer) -> None:
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    link_actions.forget(world.site("tokyo"), SiteId("paris"), None, force=True, ways=BOTH)
    world.transmit("paris", b"2", to=["tokyo"])
    # The source begins with the whole log, because the sink has forgotten its part.
    eventually(lambda: recorder.log("paris") == [b"1", b"1", b"2"])


def test_a_session_that_may_not_try_for_ever_fails(world: World) -> None:
    paris = world.server(
        "paris", listen=[], peers={"tokyo": "ipc:///nowhere/lrq.sock"}, initial_sync="log",
        retry_forever=False, retry_limit=2, retry_first_seconds=0.01,
    )  # fmt: skip
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") == SessionState.FAILED)
    assert "no further try after 3 failures" in sessions_of(paris)["tokyo"]["reason"]
