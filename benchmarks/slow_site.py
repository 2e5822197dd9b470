"""The rate of quick sites beside slow ones, by each rule of `flow_control`: `python -m benchmarks.slow_site`.

All sites get every entry. A slow site takes a fixed number of bytes a second, far below the rate of the writer. The
sinks keep nothing, so the source alone is measured.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, bindparam, text

import queues
from benchmarks.cluster import Cluster, pause, until
from benchmarks.contender import Place
from benchmarks.contenders.lrq_servers import ServerProcess
from benchmarks.contenders.lrq_sites import CLIENT, begin_sessions, messages, site_name
from benchmarks.contenders.null_sinks import NullSink
from benchmarks.contenders.tables import SOURCE
from benchmarks.contenders.workers import Told, Workers
from benchmarks.servers import binaries
from benchmarks.workload import PER_TRANSACTION, Workload
from lr_client import RoutingQueueSenderClient
from queues.clock import SYSTEM_CLOCK
from queues.wire.replication_pb2 import Ack, Frame

SITES: Final = 5
RULES: Final = ("cascade", "drop", "smart")
#: The newest log that the live feed keeps, in bytes; less than the slow sites fall behind.
_FEED: Final = 1 << 20
#: The most bytes in flight to one site. A larger window alone would take most of the entries.
_WINDOW: Final = 1 << 19
_READY: Final = text("SELECT count(*) FROM lrq_sessions WHERE state = 'log-entry sync'")
_ACKED: Final = text("SELECT min(acked_seq) FROM lrq_sessions WHERE destination IN :sites").bindparams(
    bindparam("sites", expanding=True)
)


class SlowSink(NullSink):
    """Takes *rate* bytes a second from each session, and keeps nothing."""

    def __init__(self, rate: float) -> None:
        """Take any number of sessions."""
        super().__init__()
        self._rate = rate

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        """Acknowledge each frame after the time that it takes."""
        return super().replicate(self._taken(frames))

    def _taken(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            pause(frame.ByteSize() / self._rate)
            yield frame


def serve_sinks(told: Told, rate: float) -> None:
    """Serve the quick sites at the first reported endpoint, and the slow ones at the second."""
    from sink.transport.service import serve

    running = [serve(sink, ["tcp://127.0.0.1:0"]) for sink in (NullSink(), SlowSink(rate))]
    told.tell([service.endpoints[0] for service in running])
    told.over(None)
    for service in running:
        service.stop()


@dataclass(frozen=True, slots=True)
class Measured:
    """The seconds from the first commit until the quick sites, and until the slow ones, have all entries."""

    rule: str
    slow_sites: int
    entries: int
    written_s: float
    quick_s: float
    slow_s: float | None


def measure(place: Place, rule: str, slow: int, transactions: int, rate: float) -> Measured:
    """Write *transactions* to all sites, *slow* of them slow, as fast as one application can."""
    place.cluster.create(SOURCE)
    engine = queues.create_engine(place.cluster.url(SOURCE))
    workers = Workers()
    try:
        queues.initialize(engine, site_id="source")
        workers.start(serve_sinks, rate)
        ((quick_at, slow_at),) = workers.wait_ready()
        names = [site_name(number) for number in range(SITES)]
        peers = {name: slow_at if number < slow else quick_at for number, name in enumerate(names)}
        begin_sessions(engine, names)
        server = ServerProcess(
            {
                "site_id": "source",
                "database_url": place.cluster.url(SOURCE),
                "peers": peers,
                "clients": [CLIENT],
                "initial_sync": "log",
                "flow_control": rule,
                "feed_bytes": _FEED,
                "window_bytes": _WINDOW,
            }
        )
        try:
            until(lambda: _ask(engine, _READY) == SITES, 60)
            return _written(engine, rule, names, slow, transactions)
        finally:
            server.stop()
    finally:
        workers.stop()
        engine.dispose()
        place.cluster.drop(SOURCE)


def _written(engine: Engine, rule: str, names: list[str], slow: int, transactions: int) -> Measured:
    sender, entries = RoutingQueueSenderClient(CLIENT), transactions * PER_TRANSACTION
    batches = list(Workload(entries, SITES, SITES).transactions())
    began = SYSTEM_CLOCK.monotonic()
    for batch in batches:
        with engine.begin() as connection:
            sender.transmit_log_entry_messages(connection, messages(batch))
    written = SYSTEM_CLOCK.monotonic() - began
    until(lambda: _ask(engine, _ACKED, sites=names[slow:]) >= entries, 300)
    quick = SYSTEM_CLOCK.monotonic() - began
    if slow:
        until(lambda: _ask(engine, _ACKED, sites=names[:slow]) >= entries, 300)
    return Measured(rule, slow, entries, written, quick, SYSTEM_CLOCK.monotonic() - began if slow else None)


def _ask(engine: Engine, query: object, **values: object) -> int:
    with engine.connect() as connection:
        return int(connection.execute(query, values).scalar_one() or 0)  # type: ignore[call-overload]


def main() -> None:
    """Measure quick sites beside none, one and three slow ones of five."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_site", description=main.__doc__)
    parser.add_argument("--transactions", type=int, default=1_200, help="of ten entries of 1 KiB each")
    parser.add_argument("--rate", type=float, default=1 << 19, help="bytes a second that a slow site takes")
    parser.add_argument("--folder", help="folder of the database; by default the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    chosen = parser.parse_args()
    cluster = Cluster(binaries("auto"), chosen.folder, wal_files=16)
    runs = [("drop", 0), *((rule, slow) for slow in (1, 3) for rule in RULES)]
    try:
        with tempfile.TemporaryDirectory(prefix="lrq-bench-") as files:
            place = Place(cluster, Path(files))
            found = [measure(place, rule, slow, chosen.transactions, chosen.rate) for rule, slow in runs]
    finally:
        cluster.stop()
    if chosen.json:
        json.dump([asdict(each) for each in found], sys.stdout)
        return
    sys.stdout.write("| slow sites of five | rule | quick sites, entries/s | quick sites have all, s | slow, s |\n")
    sys.stdout.write("|---|---|---|---|---|\n")
    for each in found:
        rule = f"`{each.rule}`" if each.slow_sites else "any"
        last = "" if each.slow_s is None else f"{each.slow_s:.1f}"
        rate = f"{each.entries / each.quick_s:,.0f}"
        sys.stdout.write(f"| {each.slow_sites} | {rule} | {rate} | {each.quick_s:.1f} | {last} |\n")


if __name__ == "__main__":
    main()
