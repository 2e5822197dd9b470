"""The memory of servers stays flat under a backlog of LRQ_TEST_BACKLOG_MB (default 200), in real processes."""

import os
import random
from collections.abc import Callable
from dataclasses import replace

import psutil
import pytest
from sqlalchemy import Engine, text

import queues
from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from tests.faults.ledger import CLIENT
from tests.faults.plan import SINK, Plan, set_up
from tests.faults.processes import Process
from tests.waiting import eventually

MIB = 1024**2
BACKLOG = int(os.environ.get("LRQ_TEST_BACKLOG_MB") or 200) * MIB
PAYLOAD = 16 * 1024
ENTRIES = BACKLOG // PAYLOAD
ALLOWED = 100 * MIB


class Memory:
    """The memory of a process: when idle, and at most, in bytes."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.idle = self._now()
        self.highest = self.idle

    def _now(self) -> int:
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def look(self) -> None:
        self.highest = max(self.highest, self._now())

    @property
    def grown(self) -> int:
        return self.highest - self.idle


def write_backlog(source: Engine, chance: random.Random) -> None:
    sender = RoutingQueueSenderClient(CLIENT)
    for begin in range(0, ENTRIES, 64):
        count = min(64, ENTRIES - begin)
        messages = [LRMessageWithDestinations(chance.randbytes(PAYLOAD), [SINK]) for _ in range(count)]
        with source.begin() as connection:
            sender.transmit_log_entry_messages(connection, messages)


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_a_backlog_grows_the_memory_of_both_servers_by_less_than_100_mib(
    plan: Plan, process: Callable[[str, str], Process], seed: int
) -> None:
    plan = replace(plan, initial_sync="log", batch_bytes=MIB, window_frames=64)
    set_up(plan)
    source, sink = queues.create_engine(plan.source_url), queues.create_engine(plan.sink_url)
    servers = {name: process("server", name) for name in ("sink-server", "source-server")}
    eventually(lambda: all(server.stands("owned as") for server in servers.values()), timeout=60)
    memory = {name: Memory(server) for name, server in servers.items()}
    servers["source-server"].stop()
    write_backlog(source, random.Random(seed))

    def all_is_there() -> bool:
        for one in memory.values():
            one.look()
        with sink.connect() as connection:
            return connection.execute(text("SELECT max(entries_total) FROM lrq_receive_marks")).scalar() == ENTRIES

    servers["source-server"].start()
    eventually(all_is_there, timeout=400, interval=0.02)
    for name, one in memory.items():
        print(f"{name}: {one.idle / MIB:.0f} MiB idle, {one.highest / MIB:.0f} MiB at most")
        assert one.grown < ALLOWED, f"{name} grew by {one.grown / MIB:.0f} MiB"
    assert [server.stop() for server in servers.values()] == [0, 0]
    source.dispose()
    sink.dispose()
