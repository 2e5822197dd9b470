"""The server's log tells of a transaction that has kept trim from tables of the log for long."""

import pytest
from sqlalchemy import Engine, text

from discovery.topology import StaticTopology
from lr_server.settings import Settings
from lr_server.source.clock_jumps import ClockJumps
from lr_server.source.log_trim import LogTrim
from queues.clock import SYSTEM_CLOCK
from queues.database import leases
from queues.send_log import trim_blockers as ages
from queues.send_log.postgresql import trim_blockers
from tests.queues.reading import Reader
from tests.queues.send_log.transmitting import acknowledge, transmit


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("long", "warnings"), [(0.0, 1), (3_600.0, 0)])
def test_a_long_transaction_is_told_once_while_it_keeps_a_segment(
    site: Engine, long: float, warnings: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trim_blockers, "_SECONDS", 0)
    monkeypatch.setattr(ages, "LONG_SECONDS", long)
    lease = leases.acquire(site, "server", "me", ttl=60)
    assert lease is not None
    reader = Reader(site, lease)
    transmit(site, b"secret")
    reader.drain()
    acknowledge(site, "tokyo", 1)
    assert reader.rotate()
    settings = Settings(site_id="paris", database_url=site.url.render_as_string(hide_password=False))
    clock, peers = SYSTEM_CLOCK, StaticTopology({"tokyo": "tcp://a:1"})
    jumps = ClockJumps(clock.now_us(), clock.monotonic())
    trim = LogTrim(site, settings, peers, lease, reader.log, clock=clock, jumps=jumps)
    with site.connect() as other:
        other.execute(text("SET LOCAL application_name = 'the forgotten one'"))
        other.execute(text("SELECT count(*) FROM lrq_log_entries"))
        for _ in range(2):
            trim.run()
    told = [record.getMessage() for record in caplog.records if "the forgotten one" in record.getMessage()]
    assert len(told) == warnings
    assert all("SELECT pg_terminate_backend(" in each for each in told)
