"""After a jump of the clock, entries that a site lacks are kept, and the others go."""

import logging

import pytest
from sqlalchemy import text

from queues.clock import SystemClock
from queues.database.transactions import writing
from tests.system.world import World
from tests.waiting import eventually

DAY_US = 86_400_000_000


class JumpingClock(SystemClock):
    """Shows yesterday until its jump to the present."""

    behind_us = DAY_US

    def now_us(self) -> int:
        return super().now_us() - self.behind_us


def test_entries_of_before_a_jump_wait_for_their_site(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    clock = JumpingClock()
    options = {"peers": {"tokyo": "local:tokyo"}, "initial_sync": "log", "retention_seconds": 3_600.0}
    recorder = world.subscribe("tokyo")
    paris = world.server("paris", clock=clock, listen=[], segment_bytes=1, trim_seconds=600.0, **options)
    world.transmit("paris", b"one", to=["tokyo"])
    eventually(lambda: paris.status()["log"]["seq"] >= 1)
    paris._source.trim()  # type: ignore[union-attr] - closes the segment
    clock.behind_us = 0
    with writing(world.site("paris")) as connection:
        connection.execute(text(f"UPDATE lrq_ticks SET created_us = created_us - {DAY_US}"))
    for _ in range(2):
        paris._source.trim()  # type: ignore[union-attr]
        assert paris.status()["log"]["trimmed_seq"] == 0
    assert [record for record in caplog.records if "the clock jumped ahead" in record.getMessage()]
    world.server("tokyo", listen=[])
    eventually(lambda: recorder.log("paris") == [b"one"])


def test_the_ticks_of_a_clock_that_was_ahead_hold_up_no_trim(world: World) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", trim_seconds=600.0)
    world.transmit("paris", b"one", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"one"])
    paris.drain(timeout=20)
    with writing(world.site("paris")) as connection:
        for table, column in (("lrq_ticks", "created_us"), ("lrq_log_head", "opened_us")):
            connection.execute(text(f"UPDATE {table} SET {column} = {column} + {365 * DAY_US}"))

    def is_trimmed() -> bool:
        paris._source.trim()  # type: ignore[union-attr]
        return bool(paris.status()["log"]["trimmed_seq"] >= 1)

    eventually(is_trimmed)
