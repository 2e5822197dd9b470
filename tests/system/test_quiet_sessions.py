"""Sessions without an entry of their own, while the whole log is trimmed and nothing new is written."""

from lr_server import LogReplicationServer
from lrq.cli import link_actions
from lrq.cli.waits.drain import Scope, drain
from lrq.cli.waits.drain_outcome import Outcome
from queues.database.transactions import reading
from queues.names import ClientName, SiteId
from queues.send_log.links import every_link
from tests.system.test_beginning_sessions import peers
from tests.system.world import World, sessions_of
from tests.waiting import eventually

TOKYO = SiteId("tokyo")


def named(outcome: Outcome) -> list[str]:
    return [each.destination for each in outcome.laggards]


def trimmed_whole(server: LogReplicationServer) -> None:
    """Trim until no entry is left."""

    def is_empty() -> bool:
        server._source.trim()  # type: ignore[union-attr]
        log = server.status()["log"]
        return bool(log["seq"]) and log["trimmed_seq"] == log["seq"]

    eventually(is_empty)


def test_a_link_that_is_closed_before_its_first_entry_ends_though_the_log_is_trimmed(world: World) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", "lima", initial_sync="log", segment_bytes=1)
    world.transmit("paris", b"1", to=["lima"])
    paris.drain(timeout=20)
    trimmed_whole(paris)
    link_actions.end(world.site("paris"), TOKYO, ClientName("policy"))

    def wish() -> str:
        with reading(world.site("paris")) as connection:
            return next(row.wish.value for row in every_link(connection) if row.destination == TOKYO)

    eventually(lambda: wish() == "ended")
    eventually(lambda: recorder.heard.get("paris") == [("end", b"")])


def test_sessions_begin_again_after_a_restart_though_the_log_is_trimmed(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log", segment_bytes=1)
    world.transmit("paris", b"1", to=["tokyo"])
    paris.drain(timeout=20)
    trimmed_whole(paris)
    paris.stop()
    paris = world.server("paris", **peers("tokyo"), initial_sync="log")
    paris.drain(timeout=20)


def test_a_drain_ends_for_a_site_that_was_away_while_the_entries_of_others_came_and_went(world: World) -> None:
    recorder, _ = world.subscribe("tokyo"), world.subscribe("lima")
    paris = world.link("paris", "tokyo", "lima", initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo", "lima"])
    paris.drain(timeout=20)
    paris.stop()
    away = {"tokyo": "tcp://127.0.0.1:1", "lima": "local:lima"}
    paris = world.server("paris", listen=[], peers=away, initial_sync="log", segment_bytes=1)
    world.transmit("paris", b"2", to=["lima"])
    eventually(lambda: sessions_of(paris)["lima"]["acked_seq"] == 2)
    trimmed_whole(paris)
    paris.stop()
    paris = world.server("paris", **peers("tokyo", "lima"), initial_sync="log")
    paris.drain(timeout=20)
    assert drain(world.site("paris"), Scope(applied=True), 20).drained
    eventually(lambda: recorder.log("paris") == [b"1"])


def test_a_site_without_a_subscriber_holds_up_a_drain_of_applied_entries_only_for_its_own(world: World) -> None:
    recorder = world.subscribe("tokyo")
    world.begun("paris", "tokyo", "lima")
    paris = world.link("paris", "tokyo", "lima", initial_sync="log", segment_bytes=1)
    world.transmit("paris", b"1", to=["tokyo"])
    trimmed_whole(paris)
    assert drain(world.site("paris"), Scope(applied=True), 20).drained
    eventually(lambda: recorder.log("paris") == [b"1"])
    world.transmit("paris", b"2", to=["lima"])
    paris.drain(timeout=20)
    eventually(lambda: named(drain(world.site("paris"), Scope(applied=True), 0)) == ["lima"])
    world.subscribe("lima")
    assert drain(world.site("paris"), Scope(applied=True), 20).drained
