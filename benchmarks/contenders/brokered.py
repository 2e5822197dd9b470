"""The common parts of contenders with a broker: an outbox, a relay to it, and an apply loop per destination.

Each entry is published once. The topic of an entry names its destinations, and each destination subscribes to its own
topics. The relay deletes an entry once the broker has confirmed it. A destination confirms an entry once it is
committed, and recognises a repeated entry by its number.
"""

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from sqlalchemy import text

from benchmarks.cluster import until
from benchmarks.contender import Place
from benchmarks.contenders.carried import Carried
from benchmarks.contenders.tables import SOURCE, Databases
from benchmarks.contenders.workers import Told
from benchmarks.workload import Entry

HOST: Final = "127.0.0.1"
#: Entries published, and applied, at a time.
BATCH: Final = 1_000
#: Seconds that a relay pauses without new entries.
PAUSE: Final = 0.01

_TABLE: Final = (
    "CREATE TABLE outbox"
    " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL, mask bigint NOT NULL)"
)
_INSERT: Final = text("INSERT INTO outbox (payload, mask) VALUES (:payload, :mask)")
_TAKE: Final = "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT %s) RETURNING id, payload, mask"
_APPLY: Final = "INSERT INTO entries SELECT * FROM unnest(%s::bigint[], %s::bytea[]) ON CONFLICT DO NOTHING"
_NUMBER: Final = 8

#: The topic of an entry, its number, and the bytes to send.
Message = tuple[str, int, bytes]


class Brokered(Carried):
    """A relay, and an applier per destination; `_start` starts the broker and these processes."""

    def __init__(self) -> None:
        """Start no process yet."""
        super().__init__()
        self._broker: subprocess.Popen[bytes] | None = None

    def prepare(self, place: Place, destinations: int) -> None:
        """Create the outbox, then start the broker and all processes."""
        self._databases = databases = Databases(place.cluster, destinations)
        databases.source(_TABLE)
        self._folder = Path(tempfile.mkdtemp(prefix="broker-", dir=place.folder))
        self._start(place.cluster.conninfo(SOURCE), [place.cluster.conninfo(sink) for sink in databases.sinks])
        self._workers.wait_ready()

    def _start(self, source: str, sinks: Sequence[str]) -> None:
        raise NotImplementedError

    def _run_broker(self, port: int, command: Sequence[str], **environment: str) -> None:
        with (self._folder / "output").open("wb") as output:
            self._broker = subprocess.Popen(
                command, env=environment or None, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        until(lambda: _listens(port), 60, 0.1)

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert each entry once into the outbox."""
        with self._databases.engine.begin() as connection:
            connection.execute(_INSERT, [{"payload": entry.payload, "mask": entry.mask} for entry in entries])

    def close(self) -> None:
        """Stop all processes, then the broker, and delete its files."""
        super().close()
        if self._broker is not None:
            self._broker.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._broker.wait(30)
            self._broker.kill()
            self._broker.wait()
        shutil.rmtree(self._folder)


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port)).close()
    except ConnectionError:
        return False
    return True


def pattern_of(destination: int, destinations: int) -> str:
    """Return the pattern of topics that name a destination."""
    return ".".join("1" if number == destination else "*" for number in range(destinations))


def relay(told: Told, source: str, destinations: int, publish: Callable[[list[Message]], None]) -> None:
    """Move entries from the outbox to the broker; *publish* returns once the broker has confirmed all."""
    with psycopg.connect(source, autocommit=True) as there:
        told.ready()
        while not told.over():
            with there.transaction():
                rows = sorted(there.execute(_TAKE, (BATCH,), binary=True, prepare=True).fetchall())
                if rows:
                    publish([(_topic(mask, destinations), id_, _pack(id_, payload)) for id_, payload, mask in rows])
            if not rows:
                told.over(PAUSE)


def apply(here: psycopg.Connection[Any], messages: Sequence[bytes]) -> None:
    """Insert the entries that are missing at the destination."""
    numbers = [int.from_bytes(message[:_NUMBER]) for message in messages]
    payloads = [message[_NUMBER:] for message in messages]
    with here.cursor(binary=True) as cursor:
        cursor.execute(_APPLY, (numbers, payloads), prepare=True)


def destination(conninfo: str) -> psycopg.Connection[Any]:
    """Connect to a destination, with commits that do not wait for the disk."""
    here = psycopg.connect(conninfo, autocommit=True)
    here.execute("SET synchronous_commit = off")
    return here


def _topic(mask: int, destinations: int) -> str:
    return ".".join("1" if mask >> number & 1 else "0" for number in range(destinations))


def _pack(id_: int, payload: bytes) -> bytes:
    return id_.to_bytes(_NUMBER) + payload
