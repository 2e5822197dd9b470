"""Jumps of the clock are found beside the monotonic clock, and end no entry early."""

import pytest
from sqlalchemy import Engine, select, text

from discovery.topology import StaticTopology
from lr_client.sender import RoutingQueueSenderClient
from lr_server.settings import Settings
from lr_server.source.clock_jumps import TOLERANCE, ClockJumps
from lr_server.source.log_trim import LogTrim
from lr_server.source.upkeep import Upkeep
from queues.clock import SYSTEM_CLOCK, now_us
from queues.database import leases
from queues.database.tables.consumers import parked_entries
from queues.database.transactions import reading, writing
from queues.send_log.port import Retention
from queues.send_log.reads import trimmed_seq
from tests.lr_server.source.test_upkeep import parked_entry
from tests.queues.reading import Reader

DAY = 86_400.0
WEEK = 7 * DAY


def test_steady_clocks_show_no_jump() -> None:
    jumps = ClockJumps(0, 0.0)
    # The wall clock is a tenth too fast.
    assert [jumps.look(int(t * 1.1e6), float(t)) for t in range(0, 1000, 50)] == [0.0] * 20
    assert jumps.seconds_ahead(1000.0, WEEK) == 0.0


def test_a_jump_counts_for_as_long_as_older_entries_are_kept() -> None:
    jumps = ClockJumps(0, 0.0)
    assert jumps.look(int(DAY * 1e6), 5.0) == pytest.approx(DAY - 5)
    assert jumps.seconds_ahead(5.0 + WEEK, WEEK) == pytest.approx(DAY - 5)
    assert jumps.seconds_ahead(6.0 + WEEK, WEEK) == 0.0


def test_a_jump_back_takes_back_the_newest_jumps_ahead() -> None:
    jumps = ClockJumps(0, 0.0)
    assert [round(jumps.look(int(t * 1e6), 0.0)) for t in (100, 150, 120, 30)] == [100, 50, -30, -90]
    assert jumps.seconds_ahead(0.0, WEEK) == pytest.approx(30)
    assert jumps.look(-(10**9), 0.0) == pytest.approx(-1030)
    assert jumps.seconds_ahead(0.0, WEEK) == 0.0


def test_a_small_correction_is_no_jump() -> None:
    jumps = ClockJumps(0, 0.0)
    assert jumps.look(int((TOLERANCE - 1) * 1e6), 0.0) == 0.0
    assert jumps.look(int((2 * TOLERANCE - 1) * 1e6), 0.0) == TOLERANCE


def test_the_number_of_remembered_jumps_has_a_limit() -> None:
    jumps = ClockJumps(0, 0.0)
    for step in range(1, 1001):
        jumps.look(step * 20_000_000, 0.0)
    assert jumps.seconds_ahead(0.0, WEEK) == pytest.approx(20_000)
    assert len(jumps._jumps) <= 100


@pytest.fixture
def reader(site: Engine) -> Reader:
    lease = leases.acquire(site, "server", "me", ttl=60)
    assert lease is not None
    return Reader(site, lease)


def trims(site: Engine, reader: Reader, jumps: ClockJumps) -> bool:
    """Run the trim of a server that keeps entries for an hour; return whether entries went."""
    settings = Settings(
        site_id="paris",
        database_url=site.url.render_as_string(hide_password=False),
        peers={"tokyo": "local:tokyo"},
        retention_seconds=3_600.0,
    )
    LogTrim(
        site,
        settings,
        StaticTopology({"tokyo": "local:tokyo"}),
        reader.lease,
        reader.log,
        clock=SYSTEM_CLOCK,
        jumps=jumps,
    ).run()
    with reading(site) as connection:
        return trimmed_seq(connection) > 0


def test_a_jump_ahead_trims_no_entry_that_a_site_lacks(site: Engine, reader: Reader) -> None:
    with writing(site) as connection:
        RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b"one", ["tokyo"])
    reader.drain()
    assert reader.log.rotate(reader.lease, 1, 0, None)
    with writing(site) as connection:
        connection.execute(text(f"UPDATE lrq_ticks SET created_us = created_us - {int(DAY * 1e6)}"))
    jumped = ClockJumps(now_us() - int(DAY * 1e6), SYSTEM_CLOCK.monotonic())
    assert not trims(site, reader, jumped)
    assert not trims(site, reader, jumped), "nor does a later run"
    assert trims(site, reader, ClockJumps(now_us(), SYSTEM_CLOCK.monotonic())), "a day has really passed"


def test_a_jump_ahead_removes_no_young_parked_entry(site: Engine) -> None:
    parked_entry(site, DAY)
    for since_us, kept in ((now_us() - int(DAY * 1e6), True), (now_us(), False)):
        jumps = ClockJumps(since_us, SYSTEM_CLOCK.monotonic())
        jumps.look(now_us(), SYSTEM_CLOCK.monotonic())
        Upkeep(site, 3_600.0, clock=SYSTEM_CLOCK, jumps=jumps).run()
        with reading(site) as connection:
            assert bool(connection.execute(select(parked_entries)).all()) is kept


def test_a_longer_retention_still_keeps_nothing_for_replays_without_the_setting() -> None:
    assert Retention(10.0, 1, 5.0, acknowledged_seconds=0.0).longer(DAY) == Retention(10.0 + DAY, 1, 5.0 + DAY)
    assert Retention(acknowledged_seconds=9.0).longer(DAY).acknowledged_seconds == 9.0 + DAY
