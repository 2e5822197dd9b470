"""The command that sends a range again is killed at random moments, and each entry comes again once, in order."""

import random
import subprocess

import pytest
from sqlalchemy import Engine

from lr_client import resend_orders
from queues.clock import SYSTEM_CLOCK
from queues.send_log.opening import open_log
from queues.send_log.port import TickLimits
from queues.send_log.resends import ResendState
from tests.lrq.cli.command import spawn
from tests.lrq.cli.source import SourceSite
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(300)]

COUNT = 400


def sent_again(site: Engine) -> int:
    """Return the number of entries that are sent again."""
    return sum(each.entries for each in resend_orders(site))


def test_each_entry_of_a_range_comes_again_once_in_spite_of_kills(site: Engine, seed: int) -> None:
    chance = random.Random(seed)
    source = SourceSite(site)
    source.session("tokyo")
    for number in range(COUNT):
        source.transmit(b"%d" % number, to=["tokyo"])
    newest = source.tick()
    begin = ("begin", "policy", "tokyo", "--from", "1", "--to", str(newest), "--yes")
    kills = 0
    while kills < 4:
        orders = resend_orders(site)
        command = ("continue", "policy", "tokyo") if orders else begin
        already, more = sent_again(site), chance.randint(1, 60)
        process = spawn("resend", *command, "--database", source.url, stdout=subprocess.DEVNULL)
        eventually(
            lambda already=already, more=more, process=process: (
                sent_again(site) >= already + more or process.poll() is not None
            )
        )
        process.kill()
        process.wait(60)
        kills += 1
        print(f"killed at {SYSTEM_CLOCK.monotonic():.2f} with {sent_again(site)} entries")
    if resend_orders(site)[0].state is ResendState.BEGUN:
        last = spawn("resend", "continue", "policy", "tokyo", "--database", source.url)
        assert last.wait(120) == 0
    assert source.tick() == newest + COUNT
    log = open_log(site)
    after, found = newest, list[bytes]()
    while ticks := log.ticks_after(after, TickLimits()):
        found += [each.row.payload for piece in log.read_all(ticks, TickLimits()) for each in piece]
        after = ticks[-1].end_seq
    assert found == [b"%d" % number for number in range(COUNT)]
