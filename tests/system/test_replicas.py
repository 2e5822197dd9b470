"""Replicas: one name for several sites, of which one serves."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from lr_client import ActiveMember, active_member, require_continued
from lr_server import LogReplicationServer
from lr_server.protocol.negotiation import REGROUPED
from lr_server.topology.rules import OwnSite
from lr_server.topology.table import add_peer, put_group
from lrq.cli import link_actions
from lrq.cli.exit_codes import NoError
from lrq.cli.health import troubles
from lrq.cli.links import list_links
from lrq.cli.replica_actions import promote
from queues.database.peers import PeerRow
from queues.errors import (
    ConfigurationError,
    LinkEndedError,
    PeerUnreachableError,
    ServingUnknownError,
    VersionLostError,
)
from queues.names import SiteId
from queues.positions import Position
from queues.wire.replication_pb2 import Ack, Frame
from sink.port import Sink
from tests.system.faulty import PassingSink
from tests.system.world import Messages, Recorder, World, in_log_sync, sessions_of
from tests.waiting import eventually

A, B = SiteId("tokyo-a"), SiteId("tokyo-b")
TOKYO = SiteId("tokyo")


class Numbered(Recorder):
    """Records the branch, the number and the payload of each log entry too."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[str, int, bytes]] = []
        self.obey = self._number

    def _number(self, _session: object, _source: str, entries: object) -> bool:
        self.entries += [(each.branch, each.sequence, each.opaque_payload) for each in entries]  # type: ignore[attr-defined]
        return True


def paris_with(world: World, *members: str, **options: object) -> LogReplicationServer:
    """Start paris with *members* as replicas of tokyo, whose servers work already."""
    peers = {member: f"local:{member}" for member in members}
    return world.server("paris", listen=[], peers=peers, replicas={"tokyo": list(members)}, **options)


def twins(world: World, **options: object) -> tuple[LogReplicationServer, Recorder, Recorder]:
    first, second = (world.subscribe(member) for member in (A, B))
    for member in (A, B):
        world.server(member, listen=[])
    return paris_with(world, A, B, **options), first, second


@contextmanager
def writing_on(world: World, to: str = "tokyo") -> Iterator[list[bytes]]:
    """Transmit entries from a thread until the end of the block; give the list of those committed."""
    sent: list[bytes] = []
    ending = threading.Event()

    def write() -> None:
        while not ending.is_set():
            payload = f"entry {len(sent)}".encode()
            world.transmit("paris", payload, to=[to])
            sent.append(payload)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield sent
    finally:
        ending.set()
        thread.join()


def serving(world: World, at: str = "paris") -> ActiveMember | None:
    try:
        return active_member(world.site(at), "tokyo")
    except (ConfigurationError, ServingUnknownError):
        return None


def test_every_member_gets_each_entry_under_the_same_number_also_one_for_a_single_member(world: World) -> None:
    first, second = (world.subscribe(member, Numbered()) for member in (A, B))
    for member in (A, B):
        world.server(member, listen=[])
    paris = paris_with(world, A, B)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: first.log("paris") == second.log("paris") == [b"1"])
    world.transmit("paris", b"2", b"3", to=["tokyo-a"])
    world.transmit("paris", b"4", to=["tokyo", "tokyo-b"])
    paris.drain(timeout=20)
    eventually(lambda: first.log("paris") == second.log("paris") == [b"1", b"2", b"3", b"4"])
    assert isinstance(first, Numbered)
    assert isinstance(second, Numbered)
    assert first.entries == second.entries
    assert troubles(paris.site_status()) == []


def test_an_entry_of_plain_sql_is_owed_to_every_member(world: World) -> None:
    _, first, second = twins(world, known_destinations_only=True)
    eventually(lambda: serving(world))
    world.execute("paris", _FROM_SQL[world.site("paris").dialect.name])
    eventually(lambda: first.log("paris") == second.log("paris") == [b"from sql"])


_FROM_SQL = {
    "sqlite": (
        "INSERT INTO lrq_transmit (client, payload, destinations) VALUES ('policy', CAST('from sql' AS BLOB), 'tokyo')"
    ),
    "postgresql": "SELECT lrq_transmit('policy', convert_to('from sql', 'UTF8'), ARRAY['tokyo'])",
}


def test_a_late_member_gets_the_whole_log_or_a_snapshot_if_the_log_is_trimmed(world: World) -> None:
    first, second = world.subscribe(A), world.subscribe(B)
    for member in (A, B):
        world.server(member, listen=[])
    paris = paris_with(world, A)
    world.transmit("paris", b"early", to=["tokyo"])
    eventually(lambda: first.log("paris") == [b"early"])
    paris.stop()
    paris = paris_with(world, A, B)
    eventually(lambda: second.log("paris") == [b"early"])
    assert first.kinds("paris") == second.kinds("paris") == ["log 1"]


def test_a_member_that_comes_after_a_trim_gets_a_snapshot_and_then_the_log(world: World) -> None:
    provider = Messages(lambda context: [f"state for {context.destination}".encode()])
    first, second = world.subscribe(A), world.subscribe(B)
    for member in (A, B):
        world.server(member, listen=[])
    paris = paris_with(world, A, initial_sync="auto", segment_bytes=1)
    for number in range(4):
        world.transmit("paris", f"{number}".encode(), to=["tokyo"])
        eventually(lambda number=number: len(first.log("paris")) == number + 1)
        paris.drain(timeout=20)
        eventually(lambda: all(each["lag"]["entries"] == 0 for each in sessions_of(paris).values()))
        assert paris._source is not None
        paris._source.trim()
    paris.stop()
    assert world.execute("paris", "SELECT trimmed_seq FROM lrq_log_head")[0][0] > 0
    # Without a provider, only the record of lost entries can ask for the snapshot.
    paris = paris_with(world, A, B, segment_bytes=1)
    world.transmit("paris", b"first", to=["tokyo"])
    eventually(lambda: sessions_of(paris).get(B, {}).get("state") == "snapshot sync")
    world.provide("paris", provider)
    eventually(lambda: second.kinds("paris") == ["start 1", "snapshot 1", "complete 1"])
    world.transmit("paris", b"late", to=["tokyo"])
    eventually(lambda: second.log("paris") == [b"late"])
    assert provider.served == [B]


def test_a_late_member_never_begins_with_a_part_of_the_log(world: World) -> None:
    first, second = world.subscribe(A), world.subscribe(B)
    for member in (A, B):
        world.server(member, listen=[])
    paris = paris_with(world, A, initial_sync="log", segment_bytes=1)
    world.transmit("paris", b"trimmed", to=["tokyo"])
    eventually(lambda: first.log("paris") == [b"trimmed"])
    paris.drain(timeout=20)
    assert paris._source is not None
    paris._source.trim()
    eventually(lambda: world.execute("paris", "SELECT trimmed_seq FROM lrq_log_head")[0][0] == 1)
    paris.stop()
    paris = paris_with(world, A, B, initial_sync="log", segment_bytes=1)
    said = "tokyo-b waits for a snapshot, and no provider of client policy is running: start one (`lrq provide`)"
    eventually(lambda: troubles(paris.site_status()) == [said])
    world.provide("paris", Messages(lambda _: [b"state"]))
    eventually(lambda: second.kinds("paris") == ["start 1", "snapshot 1", "complete 1"])
    world.transmit("paris", b"late", to=["tokyo"])
    eventually(lambda: second.log("paris") == [b"late"])


def test_a_member_that_joins_while_entries_flow_misses_none(world: World) -> None:
    for site in (A, B):
        world.server(site, listen=[])
        add_peer(world.site("paris"), PeerRow(site, f"local:{site}"), OwnSite("paris"))
    first, second = world.subscribe(A), world.subscribe(B)
    put_group(world.site("paris"), TOKYO, [A])
    paris = world.server("paris", listen=[], topology="table", topology_poll_seconds=0.05, initial_sync="log")
    with writing_on(world) as sent:
        eventually(lambda: len(first.log("paris")) > 20)
        put_group(world.site("paris"), TOKYO, [A, B])
        eventually(lambda: len(second.log("paris")) > 20)
    paris.drain(timeout=30)
    eventually(lambda: first.log("paris") == second.log("paris") == sent)


def test_a_site_with_a_session_that_joins_a_group_gets_a_snapshot(world: World) -> None:
    provider = Messages(lambda _: [b"everything"])
    world.provide("paris", provider)
    _, second = world.subscribe(A), world.subscribe(B)
    for member in (A, B):
        world.server(member, listen=[])
        add_peer(world.site("paris"), PeerRow(member, f"local:{member}"), OwnSite("paris"))
    paris = world.server("paris", listen=[], topology="table", topology_poll_seconds=0.05, initial_sync="log")
    world.transmit("paris", b"for a", to=[A])
    world.transmit("paris", b"for b", to=[B])
    eventually(lambda: second.log("paris") == [b"for b"])
    put_group(world.site("paris"), TOKYO, [A, B])
    eventually(lambda: second.snapshot("paris") == [b"everything"])
    assert REGROUPED in {each.reason for each in paris.site_status().snapshots}


class PartTaker(PassingSink):
    """Takes one part of a large tick, then loses each connection until it `heals`."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self.is_healed = False
        self.has_part = False

    def heal(self) -> None:
        self.is_healed = True

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        return self._sink.replicate(self._some(frames))

    def _some(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            if self.has_part and not self.is_healed:
                raise PeerUnreachableError("the connection is lost within the tick")
            yield frame
            self.has_part = self.has_part or any(not group.complete for group in frame.batch.groups)


def test_a_member_that_leaves_with_a_part_of_a_transaction_never_applies_that_part(world: World) -> None:
    world.provide("paris", Messages(lambda _: [b"everything"]))
    first, second = (world.subscribe(member) for member in (A, B))
    world.server(A, listen=[])
    taker = world.behind(B, PartTaker)
    small: dict[str, Any] = {"tick_rows": 2, "max_batch_bytes": 1_000, "initial_sync": "log"}
    paris = paris_with(world, A, B, **small)
    whole = [b"%d" % number * 500 for number in range(8)]
    world.transmit("paris", *whole, to=[TOKYO])
    eventually(lambda: taker.has_part and first.log("paris") == whole)
    paris.stop()
    alone = world.server("paris", listen=[], peers={A: f"local:{A}"}, **small)
    eventually(lambda: world.execute("paris", "SELECT regrouped_seq FROM lrq_log_head") != [(0,)])
    alone.stop()
    taker.heal()
    world.server("paris", listen=[], peers={each: f"local:{each}" for each in (A, B)}, **small)
    eventually(lambda: second.kinds("paris") == ["start 1", "snapshot 1", "complete 1"])
    world.transmit("paris", b"for b", to=[B])
    eventually(lambda: second.log("paris") == [b"for b"])


def test_a_promotion_moves_the_name_alone_and_members_hear_of_it(world: World) -> None:
    paris, first, second = twins(world)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: first.log("paris") == second.log("paris") == [b"1"])
    in_log_sync(paris, A, B)
    before = eventually(lambda: serving(world))
    assert before.member == A
    eventually(lambda: serving(world, A) == serving(world, B) == before)
    done = promote(world.site("paris"), B, timeout=20)
    assert (done.now.member, done.before, done.is_change) == (B, A, True)
    assert done.now.generation > before.generation
    assert serving(world) == done.now
    eventually(lambda: serving(world, A) == serving(world, B) == done.now)
    again = promote(world.site("paris"), B, timeout=20)
    assert (again.now, again.is_change) == (done.now, False)
    assert first.kinds("paris") == second.kinds("paris") == ["log 1"]
    assert troubles(paris.site_status()) == []


def test_a_member_that_hears_nothing_more_of_the_source_is_not_believed(world: World) -> None:
    paris, *_ = twins(world)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: serving(world, A))
    paris.stop()
    old = world.execute(A, "SELECT max(told_us) FROM lrq_told_members")[0][0]
    world.execute(A, "UPDATE lrq_told_members SET told_us = :at", at=old - 11_000_000)
    with pytest.raises(ServingUnknownError, match=r"paris has not told for \d+ s which member of tokyo serves"):
        active_member(world.site(A), "tokyo")
    assert active_member(world.site("paris"), "tokyo").member == A


def test_a_choice_that_is_older_than_the_reader_knows_is_not_believed(world: World) -> None:
    twins(world)
    world.transmit("paris", b"1", to=["tokyo"])
    found = eventually(lambda: serving(world, A))
    assert active_member(world.site(A), "tokyo", known=found.generation) == found
    with pytest.raises(ServingUnknownError, match="but generation 9999 was seen elsewhere"):
        active_member(world.site(A), "tokyo", known=9999)


def test_a_member_ignores_a_lower_generation_and_the_source_goes_above_it(world: World) -> None:
    paris, *_ = twins(world)
    world.transmit("paris", b"1", to=["tokyo"])
    found = eventually(lambda: serving(world, B))
    world.execute(B, "UPDATE lrq_told_members SET generation = 500, member = 'tokyo-b'")
    # The source goes above it at once if the session happens to negotiate now.
    eventually(lambda: (now := serving(world, B)) is not None and now.generation >= 500)
    paris.stop()
    assert found.generation < 500
    paris_with(world, A, B)
    eventually(lambda: (now := serving(world, B)) is not None and now.generation > 500 and now.member == A)


def test_a_member_without_the_entries_that_the_active_one_applied_is_not_promoted(world: World) -> None:
    paris, first, second = twins(world)
    second.obey = lambda *_: False
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: first.log("paris") == [b"1"])
    eventually(lambda: (sessions_of(paris).get(A, {}).get("applied_seq") or 0) > 0)
    in_log_sync(paris, A, B)
    with pytest.raises(NoError, match=r"after 0.2 s tokyo-b has"):
        promote(world.site("paris"), B, timeout=0.2)
    assert eventually(lambda: serving(world)).member == A
    assert promote(world.site("paris"), B, timeout=0, force=True).now.member == B


def test_a_reader_that_follows_the_active_member_reads_each_entry_once(world: World) -> None:
    """The sites keep the entries of the flow in their receive queues, which stand for tables of an application."""
    paris, first, second = twins(world)
    engines = {A: world.site(A), B: world.site(B)}
    listeners = {A: first, B: second}
    read: list[bytes] = []
    moves = 0
    with writing_on(world) as sent:
        known = 0
        for target in (B, A, B):
            least = len(read) + 10
            eventually(lambda least=least: len(listeners[A].log("paris")) > least)
            in_log_sync(paris, A, B)
            promote(world.site("paris"), target, timeout=30)
            found = active_member(world.site("paris"), "tokyo", known=known)
            moves, known = moves + 1, found.generation
            read += listeners[found.member].log("paris")[len(read) :]
    paris.drain(timeout=30)
    eventually(lambda: first.log("paris") == second.log("paris") == sent)
    read += second.log("paris")[len(read) :]
    assert (read, moves) == (sent, 3)
    assert engines.keys() == {A, B}


def test_a_reader_may_go_on_in_the_same_history_only(world: World) -> None:
    provider = Messages(lambda _: [b"everything"])
    first, second = world.subscribe(A, Numbered()), world.subscribe(B)
    for member in (A, B):
        world.server(member, listen=[])
    paris = paris_with(world, A)
    for number in range(3):
        world.transmit("paris", f"{number}".encode(), to=["tokyo"])
        eventually(lambda number=number: len(first.log("paris")) == number + 1)
    paris.stop()
    world.provide("paris", provider)
    paris = paris_with(world, A, B, initial_sync="snapshot")
    eventually(lambda: second.snapshot("paris") == [b"everything"])
    world.transmit("paris", b"last", to=["tokyo"])
    eventually(lambda: second.log("paris") == [b"last"])
    assert isinstance(first, Numbered)
    eventually(lambda: first.log("paris")[-1] == b"last")
    branch, early = first.entries[0][:2]
    newest = first.entries[-1][1]
    eventually(lambda: not world.execute(B, "SELECT cut FROM lrq_receive_marks WHERE cut != ''"))
    with world.site(B).connect() as connection:
        require_continued(connection, "policy", "paris", Position(branch, newest))
        with pytest.raises(VersionLostError, match="because the site began with a later snapshot"):
            require_continued(connection, "policy", "paris", Position(branch, early))
        with pytest.raises(VersionLostError, match="because the site has another history"):
            require_continued(connection, "policy", "paris", Position("other", newest))
    with world.site(A).connect() as connection:
        require_continued(connection, "policy", "paris", Position(branch, early))


def test_entries_for_a_group_are_refused_while_the_links_to_all_its_members_have_ended(world: World) -> None:
    paris, first, second = twins(world, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: first.log("paris") == second.log("paris") == [b"1"])
    engine, tokyo = world.site("paris"), SiteId("tokyo")
    link_actions.end(engine, A, None)
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: second.log("paris") == [b"1", b"2"])
    said = "the link of policy to tokyo-a, which serves for tokyo, has ended, and other members go on"
    eventually(lambda: any(each.startswith(said) for each in troubles(paris.site_status())))
    link_actions.end(engine, B, None)
    with pytest.raises(LinkEndedError, match="'tokyo' has ended"):
        world.transmit("paris", b"no site would get this", to=["tokyo"])
    with pytest.raises(DBAPIError, match="has ended"):
        world.execute("paris", _FROM_SQL[engine.dialect.name])
    assert len(link_actions.begin(engine, tokyo, None)) == 2
    world.transmit("paris", b"3", to=["tokyo"])
    eventually(lambda: first.log("paris") == second.log("paris") == [b"1", b"2", b"3"])
    assert [key.destination for key in link_actions.end(engine, tokyo, None)] == [A, B]
    with pytest.raises(LinkEndedError):
        world.transmit("paris", b"nor this", to=["tokyo"])
    eventually(lambda: first.kinds("paris")[-1] == second.kinds("paris")[-1] == "end 1")
    eventually(lambda: {each.state for each in list_links(engine).outgoing} == {"ended"})
    paris.drain(timeout=20)
    link_actions.forget(engine, tokyo, None, force=False, ways=["outgoing"])
    with pytest.raises(LinkEndedError):
        world.transmit("paris", b"nor this", to=["tokyo"])
