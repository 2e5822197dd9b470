"""What contenders share that go through a broker: an outbox, a relay to one topic, an apply loop at each destination.

Each entry is published once; its topic says which destinations it is for, and each of them subscribes to what is its
own. The relay forgets what the broker has confirmed, the destination confirms what it has committed: what one of them
does twice after it died is known by the entry's number.
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
#: Entries that are published, and applied, at a time.
BATCH: Final = 1_000
#: Seconds that a relay pauses when nothing is new.
PAUSE: Final = 0.01

_TABLE: Final = (
    "CREATE TABLE outbox"
    " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL, mask bigint NOT NULL)"
)
_INSERT: Final = text("INSERT INTO outbox (payload, mask) VALUES (:payload, :mask)")
_TAKE: Final = "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT %s) RETURNING id, payload, mask"
_APPLY: Final = "INSERT INTO entries SELECT * FROM unnest(%s::bigint[], %s::bytea[]) ON CONFLICT DO NOTHING"
_NUMBER: Final = 8

#: An entry's topic, its number, and what is sent.
Message = tuple[str, int, bytes]


class Brokered(Carried):
    """A relay, and an applier for each destination; `_start` starts the broker and all of them."""

    def __init__(self) -> None:
        """Run nothing yet."""
        super().__init__()
        self._broker: subprocess.Popen[bytes] | None = None

    def prepare(self, place: Place, destinations: int) -> None:
        """Make the outbox, then start everything."""
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
        """Put the entries into the outbox, each once."""
        with self._databases.engine.begin() as connection:
            connection.execute(_INSERT, [{"payload": entry.payload, "mask": entry.mask} for entry in entries])

    def close(self) -> None:
        """Stop all, then the broker, and forget what it has stored."""
        super().close()
        if self._broker is not None:
            self._broker.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._broker.wait(30)
            self._broker.kill()
            self._broker.wait()
        shutil.rmtree(self._folder)


def free_port() -> int:
    """Return a port that nobody listens on."""
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
    """Return the topics of what is owed to one destination."""
    return ".".join("1" if number == destination else "*" for number in range(destinations))


def relay(told: Told, source: str, destinations: int, publish: Callable[[list[Message]], None]) -> None:
    """Move what is in the outbox; *publish* returns when the broker has all."""
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
    """Commit what is not there yet."""
    numbers = [int.from_bytes(message[:_NUMBER]) for message in messages]
    payloads = [message[_NUMBER:] for message in messages]
    with here.cursor(binary=True) as cursor:
        cursor.execute(_APPLY, (numbers, payloads), prepare=True)


def destination(conninfo: str) -> psycopg.Connection[Any]:
    """Connect to a destination, which does not wait for the disk."""
    here = psycopg.connect(conninfo, autocommit=True)
    here.execute("SET synchronous_commit = off")
    return here


def _topic(mask: int, destinations: int) -> str:
    return ".".join("1" if mask >> number & 1 else "0" for number in range(destinations))


def _pack(id_: int, payload: bytes) -> bytes:
    return id_.to_bytes(_NUMBER) + payload
