"""The delay of live entries beside a snapshot that fills the link: `python -m benchmarks.lanes`.

The source `paris` sends to `lima` and `tokyo`. One client's snapshot goes to `lima` only; the entries of another
client go to both. The delay of an entry is the time from the begin of its transaction to the listener's call.

The time of the transaction alone is shown beside the delays. Nothing of lrq's servers is in that time. So its growth
tells the load of the machine, its disk and the database.
"""

import argparse
import json
import math
import random
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import Engine
from sqlalchemy.orm import Session

import queues
from benchmarks.cluster import pause, until
from benchmarks.contenders.lrq_servers import ServerProcess
from benchmarks.link import Links
from benchmarks.snapshot.postgres import postgres, settle
from lr_client import LRMessageWithDestinations, RoutingQueueListener, RoutingQueueSenderClient, subscribe
from lr_client.snapshot.requests import SnapshotContext, SnapshotTransmitter, request_snapshot_sync
from queues import send_snapshot
from queues.clock import SYSTEM_CLOCK
from queues.database.transactions import reading
from queues.names import ClientName
from queues.send_snapshot import SnapshotState
from queues.wire.entry_pb2 import RoutingTableEntryMsg

LIVE: Final = ClientName("live")
BULK: Final = "bulk"
SITES: Final = ("lima", "tokyo")
#: The bytes of one row of the snapshot; they cannot be compressed.
_ROW: Final = 64 * 1024
_BAR: Final = 1.5


class Arrivals(RoutingQueueListener):
    """Records the delay of each entry, in seconds, by its number."""

    client_name = LIVE

    def __init__(self) -> None:
        self.delays: dict[int, float] = {}

    def process_updates_in_snapshot_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Take no snapshot."""
        raise NotImplementedError

    def process_updates_in_log_entry_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Note the time."""
        del session, source_id
        now = SYSTEM_CLOCK.monotonic()
        for entry in entries:
            number, sent = struct.unpack_from("!Id", entry.opaque_payload)
            self.delays.setdefault(number, now - sent)
        return True


class Bulk:
    """A provider of *size* bytes that completes its snapshot once `go_on` is set."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.is_built = threading.Event()
        self.go_on = threading.Event()

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        """Store the rows, then wait."""
        chance = random.Random(1)
        for _ in range(self._size // _ROW):
            context.transmit(chance.randbytes(_ROW))
        self.is_built.set()
        SYSTEM_CLOCK.wait(self.go_on, 600)
        context.mark_completed()

    def cancel(self, context: SnapshotContext) -> None:
        """End the wait."""
        del context
        self.go_on.set()


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays of the live entries at one site, in milliseconds."""

    site: str
    entries: int
    quiet_p50: float
    quiet_p99: float
    beside_p50: float
    beside_p99: float

    @property
    def ratio(self) -> float:
        """The p99 beside the snapshot, in quiet ones."""
        return self.beside_p99 / self.quiet_p99


@dataclass(frozen=True, slots=True)
class Measured:
    """The delays at each site, and the times of the application's transactions.

    `rate_beside` is the snapshot's bytes a second beside live entries, and `rate_alone` the rate after them.
    """

    delays: list[Delays]
    transactions: Delays
    rate_beside: float
    rate_alone: float


class Sites:
    """Three sites with a server process each, and the live client's subscribers."""

    def __init__(self, create: Callable[[str], Engine], stack: ExitStack, rate: float) -> None:
        self._sender = RoutingQueueSenderClient(LIVE)
        self._number = 0
        self._took: dict[int, float] = {}
        self.source, *made = [_site(create(site), stack, site) for site in ("paris", *SITES)]
        sinks = dict(zip(SITES, made, strict=True))
        self.arrivals = {site: Arrivals() for site in SITES}
        for site, engine in sinks.items():
            stack.enter_context(subscribe(engine, self.arrivals[site]))
        endpoints = [_serve(stack, site, engine, listen=["tcp://127.0.0.1:0"]) for site, engine in sinks.items()]
        if rate:
            links = Links(endpoints, rate)
            stack.callback(links.stop)
            endpoints = links.endpoints
        _serve(stack, "paris", self.source, peers=dict(zip(SITES, endpoints, strict=True)), initial_sync="log")

    def transmit(self, count: int, every: float) -> range:
        """Transmit *count* entries to both sites, one each *every* seconds; return their numbers."""
        first, due = self._number, SYSTEM_CLOCK.monotonic()
        for _ in range(count):
            began = SYSTEM_CLOCK.monotonic()
            with self.source.begin() as connection:
                payload = struct.pack("!Id", self._number, began) + bytes(200)
                self._sender.transmit_log_entry_messages(connection, [LRMessageWithDestinations(payload, list(SITES))])
            self._took[self._number] = SYSTEM_CLOCK.monotonic() - began
            self._number += 1
            due += every
            pause(due - SYSTEM_CLOCK.monotonic())
        return range(first, self._number)

    def delays(self, numbers: range) -> dict[str, list[float]]:
        """Wait for the entries at both sites; return their delays in milliseconds."""
        until(lambda: all(numbers[-1] in each.delays for each in self.arrivals.values()), 300)
        return {site: sorted(1_000 * each.delays[number] for number in numbers) for site, each in self.arrivals.items()}

    def transactions(self, numbers: range) -> list[float]:
        """Return the times of the transactions of the entries, in milliseconds."""
        return sorted(1_000 * self._took[number] for number in numbers)


def _site(engine: Engine, stack: ExitStack, name: str) -> Engine:
    stack.callback(engine.dispose)
    queues.initialize(engine, site_id=name)
    return engine


def _serve(stack: ExitStack, site: str, engine: Engine, **settings: Any) -> str:  # noqa: ANN401 - settings of any type
    url = engine.url.render_as_string(hide_password=False)
    process = ServerProcess({"site_id": site, "database_url": url, **settings})
    stack.callback(process.stop)
    return process.endpoints[0]


@contextmanager
def snapshot(source: Engine, size: int) -> Iterator[tuple[str, Bulk]]:
    """Have a snapshot of *size* bytes built for `lima`; yield its id, and the provider that still holds it."""
    bulk = Bulk(size)
    with closing(SnapshotTransmitter(source, BULK, bulk)):
        with source.begin() as connection:
            sync_id = request_snapshot_sync(connection, BULK, SITES[0])
        until(bulk.is_built.is_set, 300)
        yield sync_id, bulk


def measure(create: Callable[[str], Engine], *, seconds: float, every: float, rate: float, size: int) -> Measured:
    """Measure the delays for *seconds*, first quiet, then beside a snapshot of *size* bytes, which is built before.

    *create* returns the engine of an empty database.
    """
    count = math.ceil(seconds / every)
    with ExitStack() as stack:
        sites = Sites(create, stack, rate)
        sites.delays(sites.transmit(count // 5, every))
        with snapshot(sites.source, size) as (sync_id, bulk):
            # The writes of the build must delay no entry later.
            if sites.source.dialect.name == "postgresql":
                settle(sites.source)
            first = sites.transmit(count, every)
            quiet = sites.delays(first)
            bulk.go_on.set()
            began = SYSTEM_CLOCK.monotonic()
            until(lambda: _is_in(sites.source, sync_id, SnapshotState.READY), 60)
            numbers = sites.transmit(count, every)
            live_for, sent = SYSTEM_CLOCK.monotonic() - began, _sent_bytes(sites.source, sync_id)
            was_filled = _is_in(sites.source, sync_id, SnapshotState.READY)
            beside = sites.delays(numbers)
            until(lambda: _is_in(sites.source, sync_id, SnapshotState.APPLIED), 600)
            alone_for = SYSTEM_CLOCK.monotonic() - began - live_for
    if not was_filled:
        raise RuntimeError(
            f"the snapshot ended within the measurement: give it more than {size / 2**20:g} MiB (--size)"
        )
    made = [Delays(site, count, *_points(quiet[site]), *_points(beside[site])) for site in SITES]
    transactions = Delays("commit", count, *_points(sites.transactions(first)), *_points(sites.transactions(numbers)))
    return Measured(made, transactions, sent / live_for, (size - sent) / alone_for)


def _is_in(source: Engine, sync_id: str, state: SnapshotState) -> bool:
    with reading(source) as connection:
        found = send_snapshot.find(connection, sync_id)
    return found is not None and found.state is state


def _sent_bytes(source: Engine, sync_id: str) -> int:
    with reading(source) as connection:
        found = send_snapshot.find(connection, sync_id)
    return 0 if found is None else found.sent_rows * _ROW


def _points(ordered: Sequence[float]) -> tuple[float, float]:
    return ordered[len(ordered) // 2], ordered[math.ceil(0.99 * len(ordered)) - 1]


@contextmanager
def _databases(folder: str | None, *, is_sqlite: bool) -> Iterator[Callable[[str], Engine]]:
    if not is_sqlite:
        with postgres(folder) as server:
            yield server.create
        return
    with tempfile.TemporaryDirectory(prefix="lrq-bench-", dir=folder) as place:
        yield lambda name: queues.create_engine(f"sqlite:///{place}/{name}.db")


def main() -> None:
    """Measure the delay of live entries beside a snapshot that fills the link."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lanes", description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each of the two measurements")
    parser.add_argument("--every", type=float, default=0.02, help="seconds between two live entries")
    parser.add_argument("--rate", type=float, default=10.0, help="MB/s of the link to each site; 0 for no limit")
    parser.add_argument("--size", type=float, default=0.0, help="MiB of the snapshot; by default enough for the link")
    parser.add_argument("--sqlite", action="store_true", help="sites in SQLite files in place of PostgreSQL")
    parser.add_argument("--folder", help="folder of the databases; by default the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    chosen = parser.parse_args()
    size = chosen.size or 1.5 * chosen.seconds * (chosen.rate or 60.0)
    with _databases(chosen.folder, is_sqlite=chosen.sqlite) as create:
        found = measure(
            create, seconds=chosen.seconds, every=chosen.every, rate=chosen.rate * 1e6, size=int(size * 2**20)
        )
    if chosen.json:
        json.dump(asdict(found), sys.stdout)
        return
    for each in (*found.delays, found.transactions):
        sys.stdout.write(
            f"{each.site:8} quiet p50 {each.quiet_p50:7.1f} p99 {each.quiet_p99:7.1f} ms, beside the snapshot "
            f"p50 {each.beside_p50:7.1f} p99 {each.beside_p99:7.1f} ms: {each.ratio:.2f} times\n"
        )
    sys.stdout.write(
        f"the snapshot to {SITES[0]}: {found.rate_beside / 1e6:.1f} MB/s beside live entries, "
        f"{found.rate_alone / 1e6:.1f} MB/s after them; the bar is {_BAR} times\n"
    )


if __name__ == "__main__":
    main()
