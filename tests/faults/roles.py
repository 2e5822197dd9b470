"""The roles of a fault run: an application, a server and a subscriber.

A line `STANDS …` gives the status of the process, and `SENT …` a sent chunk; other lines are for people.
"""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial

import queues
from lr_client import RoutingQueueSenderClient, subscribe
from lr_client.snapshot import transmitter
from lr_client.snapshot.requests import SnapshotTransmitter
from lr_server import LogReplicationServer
from lr_server.source import sink_connector
from queues.clock import SYSTEM_CLOCK
from queues.errors import StoreUnavailableError
from queues.send_snapshot.block_packer import WriteLimits
from queues.wire.replication_pb2 import Ack, Frame
from sink import RemoteSink
from tests.faults import ledger
from tests.faults.plan import LEASE_SECONDS, SINK, Plan
from tests.faults.role_process import run_role, tell
from tests.system import counters

WRITERS = 2


def application(plan: Plan, name: str, over: threading.Event) -> None:
    """Write transactions until the plan's `no_more_writing` file exists, and provide snapshots."""
    engine = queues.create_engine(plan.source_url)
    sender = RoutingQueueSenderClient(ledger.CLIENT)

    def write(chance: random.Random) -> None:
        while not over.is_set() and not plan.no_more_writing.exists():
            ledger.write(engine, sender, chance, SINK)
            tell("writing")
            SYSTEM_CLOCK.wait(over, 0.01 * chance.random())

    threads = [
        threading.Thread(target=write, args=(random.Random(f"{plan.seed}/{name}/{os.getpid()}/{number}"),))
        for number in range(WRITERS)
    ]
    # Small batches, so that most snapshots travel while they are built.
    transmitter.WriteLimits = partial(WriteLimits, batch_rows=40)  # type: ignore[assignment,misc]
    with closing(SnapshotTransmitter(engine, ledger.CLIENT, counters.Items(), block_rows=10)):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tell(ledger.WRITTEN_ALL)
        over.wait()


class ToldSink(RemoteSink):
    """Holds each snapshot chunk until the plan allows it, then prints `SENT <sync_id> <first row> <rows>`."""

    plan: Plan
    _never = threading.Event()

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        return super().replicate(self._tell(frames))

    def _tell(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            chunk = frame.snapshot_chunk
            if chunk.sync_id:
                rows = sum(block.rows for block in chunk.blocks)
                while not self.plan.allows_row(chunk.first_row + rows - 1):
                    SYSTEM_CLOCK.wait(self._never, 0.001)
                print(f"SENT {chunk.sync_id} {chunk.first_row} {rows}", flush=True)
            yield frame


def server(plan: Plan, name: str, over: threading.Event) -> None:
    """Run a server and print its status."""
    ToldSink.plan = plan
    sink_connector.RemoteSink = ToldSink  # type: ignore[misc]
    with LogReplicationServer(plan.settings(name)) as running:
        while not over.wait(0.05):
            # PostgreSQL may have ended the connections of a paused process.
            with suppress(StoreUnavailableError):
                tell(running.status()["server"]["reason"])


def subscriber(plan: Plan, name: str, over: threading.Event) -> None:
    """Apply the received entries and print the subscription's status."""
    engine = queues.create_engine(plan.sink_url)
    with closing(
        subscribe(engine, ledger.Ledger(), poll_interval=0.05, max_batch_entries=50, lease_ttl=LEASE_SECONDS)
    ) as subscription:
        while not over.wait(0.05):
            tell(subscription.reason)


ROLES: dict[str, Callable[[Plan, str, threading.Event], None]] = {
    "application": application,
    "server": server,
    "subscriber": subscriber,
}


if __name__ == "__main__":
    run_role(ROLES, Plan.load)
