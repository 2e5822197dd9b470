"""The metrics that Prometheus fetches from a server."""

import sqlite3
import threading
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.exc import DatabaseError

import queues
from discovery.site_status import SiteStatus
from lr_server.health import Health
from lr_server.metrics.metrics_server import MetricsServer
from lr_server.readiness import ANSWER_SECONDS, DatabaseLook
from queues.clock import SYSTEM_CLOCK
from queues.errors import ConfigurationError, StoreUnavailableError
from queues.names import SiteId
from tests.system.world import Messages, World
from tests.waiting import eventually

ANYWHERE = "127.0.0.1:0"


def fetched(address: str) -> dict[str, float]:
    """Return the samples by name; samples of the same name are added up."""
    with urlopen(f"http://{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def address_of(server: Any) -> str:
    return str(server.status()["server"]["metrics"])


def test_metrics_count_the_entries_sent_and_applied(world: World) -> None:
    tokyo = world.server("tokyo", metrics=ANYWHERE)
    peers = {"tokyo": tokyo.endpoints[0]}
    paris = world.server("paris", listen=[], peers=peers, initial_sync="log", metrics=ANYWHERE)
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"1", b"2", b"3", to=["tokyo"])
    eventually(lambda: len(recorder.log("paris")) == 3)
    eventually(lambda: fetched(address_of(paris))["lrq_session_acked_seq"] >= 3)
    at_paris, at_tokyo = fetched(address_of(paris)), fetched(address_of(tokyo))
    assert (at_paris["lrq_owner"], at_paris["lrq_session_stalled"], at_paris["lrq_session_lag_entries"]) == (1, 0, 0)
    assert at_tokyo["lrq_receive_received_total"] == at_tokyo["lrq_receive_applied_total"] == 3
    assert at_tokyo["lrq_database_up"] == 1
    assert at_tokyo["process_cpu_seconds_total"] > 0


def test_metrics_tell_the_delays_and_the_bytes_of_a_session(world: World) -> None:
    tokyo = world.server("tokyo", metrics=ANYWHERE)
    peers = {"tokyo": tokyo.endpoints[0]}
    paris = world.server("paris", listen=[], peers=peers, initial_sync="log", metrics=ANYWHERE)
    recorder = world.subscribe("tokyo")
    world.transmit("paris", bytes(1_000), b"2", b"3", to=["tokyo"])
    eventually(lambda: len(recorder.log("paris")) == 3)
    eventually(lambda: fetched(address_of(paris))["lrq_session_commit_to_applied_seconds_count"] == 3)
    at_paris = fetched(address_of(paris))
    assert at_paris["lrq_session_commit_to_sink_seconds_count"] == 3
    assert 0 < at_paris["lrq_session_commit_to_sink_seconds_sum"] <= 3 * 60
    assert at_paris["lrq_session_commit_to_sink_seconds_sum"] <= at_paris["lrq_session_commit_to_applied_seconds_sum"]
    assert at_paris["lrq_session_reconnects_total"] == 0
    assert at_paris["lrq_session_sent_bytes_total"] > 0
    sent = fetched(address_of(paris))["lrq_session_sent_bytes_total"]
    eventually(lambda: fetched(address_of(tokyo))["lrq_receive_bytes_total"] >= sent)


def test_metrics_count_the_reconnects_of_a_session(world: World) -> None:
    tokyo = world.server("tokyo")
    peers = {"tokyo": tokyo.endpoints[0]}
    paris = world.server("paris", listen=[], peers=peers, initial_sync="log", metrics=ANYWHERE)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: fetched(address_of(paris)).get("lrq_session_acked_seq", 0) >= 1)
    tokyo.stop()
    eventually(lambda: fetched(address_of(paris))["lrq_session_reconnects_total"] >= 2)


def test_the_totals_of_a_sink_count_log_entries_and_snapshot_rows_alike(world: World) -> None:
    world.provide("paris", Messages(lambda _: [b"state 1", b"state 2"]))
    tokyo = world.server("tokyo", metrics=ANYWHERE)
    world.server("paris", listen=[], peers={"tokyo": tokyo.endpoints[0]})
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.snapshot("paris"))
    world.transmit("paris", b"2", b"3", b"4", to=["tokyo"])
    eventually(lambda: recorder.log("paris")[-1:] == [b"4"])
    count = len(recorder.snapshot("paris")) + len(recorder.log("paris"))
    eventually(lambda: fetched(address_of(tokyo))["lrq_receive_applied_total"] == count)
    assert fetched(address_of(tokyo))["lrq_receive_received_total"] == count


def test_metrics_of_a_second_server_say_that_another_one_takes_the_ticks(world: World) -> None:
    world.server("paris", listen=[])
    other = world.server("paris", listen=[], metrics=ANYWHERE)
    found = fetched(address_of(other))
    assert found["lrq_owner"] == 0
    assert "lrq_log_seq" not in found


def test_an_unreadable_database_is_shown_as_a_metric() -> None:
    def status() -> SiteStatus:
        raise StoreUnavailableError("the database is away")

    server = MetricsServer(ANYWHERE, status)
    try:
        found = fetched(server.address)
    finally:
        server.stop()
    assert found["lrq_database_up"] == 0
    assert "lrq_owner" not in found


@pytest.mark.parametrize("error", [DatabaseError("SELECT", None, sqlite3.DatabaseError("malformed")), ValueError()])
def test_a_database_that_fails_in_another_way_is_shown_as_a_metric_too(error) -> None:
    def status() -> SiteStatus:
        raise error

    server = MetricsServer(ANYWHERE, status)
    try:
        assert fetched(server.address)["lrq_database_up"] == 0
    finally:
        server.stop()


def test_no_request_waits_for_a_database_that_is_known_to_be_silent() -> None:
    reads: list[str] = []

    def status() -> SiteStatus:
        reads.append("again")
        raise StoreUnavailableError("the database is away")

    health = Health(
        queues.create_engine("sqlite://"), SiteId("paris"), role=str, parts=dict, turns=dict,
        on_ready=lambda _: None, on_ended=print, clock=SYSTEM_CLOCK,
    )  # fmt: skip
    assert not health.is_silent, "the first look has not ended yet"
    health._look = DatabaseLook(SYSTEM_CLOCK.monotonic(), "")
    assert not health.is_silent
    health._look = DatabaseLook(SYSTEM_CLOCK.monotonic() - ANSWER_SECONDS - 1, "")
    server = MetricsServer(ANYWHERE, status, health=health)
    try:
        assert fetched(server.address)["lrq_database_up"] == 0
        assert reads == []
    finally:
        server.stop()


def test_a_hanging_database_blocks_no_request() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def status() -> SiteStatus:
        begun.set()
        assert go_on.wait(60)
        raise StoreUnavailableError("the database has hung")

    server = MetricsServer(ANYWHERE, status, patience=0.01)
    try:
        for _ in range(2):
            assert fetched(server.address)["lrq_database_up"] == 0
        assert begun.is_set()
    finally:
        go_on.set()
        server.stop()


def test_an_address_in_use_is_reported_and_the_server_stays_closed(world: World) -> None:
    paris = world.server("paris", metrics=ANYWHERE)
    with pytest.raises(ConfigurationError, match=r"cannot serve metrics at 127\.0\.0\.1:.*in use"):
        world.server("tokyo", metrics=address_of(paris))
    address = address_of(paris)
    paris.stop()
    again = world.server("paris", metrics=address)
    assert fetched(address)["lrq_database_up"] == 1
    assert address_of(again) == address
