"""The time of a snapshot from the request to "applied", against `pg_dump | psql` of the same table.

A snapshot is "applied" once the second database's receive queue durably holds every row and the mark that publishes
them. `pg_dump | psql` ends when its rows, and their index, are in the second database.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from sqlalchemy import Engine, text

import queues
from benchmarks.snapshot import memory
from benchmarks.snapshot.postgres import Server, empty, libpq, settle
from benchmarks.snapshot.waiting import until
from lr_client.snapshot.requests import SnapshotTransmitter, request_snapshot_sync
from lr_client.spark import SparkSnapshotProvider
from queues import send_snapshot
from queues.database.tables import receive_snapshot_blocks, snapshot_blocks
from queues.database.transactions import reading
from queues.send_snapshot import SnapshotState

CLIENT, SOURCE, SINK = "bench", "paris", "tokyo"
_PARTITIONS = 4
_BODY = "rpad(n || ' ' || sha512(n::text::bytea)::text, :size, 'a line of an ordinary rule, ')"


class Travel:
    """Two sites with one server process each, and the table `items` at the first."""

    def __init__(self, server: Server, spark: Any, folder: Path) -> None:  # noqa: ANN401 - a SparkSession
        self._server = server
        self._spark = spark
        self._folder = folder
        self.source, self.sink = server.create("source"), server.create("sink")
        queues.initialize(self.source, site_id=SOURCE)
        queues.initialize(self.sink, site_id=SINK)
        self.pids: dict[str, list[int]] = {}

    def fill(self, rows: int, size: int) -> None:
        """Fill `items` with *rows* rows of *size* bytes."""
        with self.source.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS items"))
            connection.execute(text("CREATE TABLE items (id bigint PRIMARY KEY, body text NOT NULL)"))
            connection.execute(
                text(f"INSERT INTO items SELECT n, {_BODY} FROM generate_series(1, :rows) AS n"),
                {"rows": rows, "size": size},
            )
        with self.source.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE items"))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the two servers, and serve snapshot requests with Spark."""
        address = f"ipc://{self._folder}/sink.socket"
        provider = SparkSnapshotProvider(self._spark, _build)
        with ExitStack() as stack:
            sink = stack.enter_context(_serving(self._folder, self.sink, SINK, "--listen", address))
            stack.enter_context(SnapshotTransmitter(self.source, CLIENT, provider))
            source = stack.enter_context(_serving(self._folder, self.source, SOURCE, "--peer", f"{SINK}={address}"))
            self.pids = {"server": [source.pid], "sink": [sink.pid]}
            yield

    def by_lrq(self) -> dict[str, float]:
        """Return the seconds until one snapshot was ready and until it was applied; needs `running`."""
        for engine, table in ((self.source, snapshot_blocks), (self.sink, receive_snapshot_blocks)):
            empty(engine, table.name)
        settle(self.sink)
        began = perf_counter()
        with self.source.begin() as connection:
            sync_id = request_snapshot_sync(connection, CLIENT, SINK)
        until(lambda: self._state(sync_id) in (SnapshotState.READY, SnapshotState.APPLIED))
        ready = perf_counter() - began
        until(lambda: self._state(sync_id) == SnapshotState.APPLIED)
        return {"ready": ready, "applied": perf_counter() - began}

    def by_dump(self) -> float:
        """Return the seconds of `pg_dump | psql` of the table into the second database."""
        with self.sink.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS items"))
        settle(self.sink)
        began = perf_counter()
        dump = [self._server.program("pg_dump"), "--table", "items", "--dbname", libpq(self.source)]
        load = [self._server.program("psql"), "--quiet", "--single-transaction", "-v", "ON_ERROR_STOP=1"]
        with subprocess.Popen(dump, stdout=subprocess.PIPE) as dumping:
            subprocess.run([*load, libpq(self.sink)], stdin=dumping.stdout, stdout=subprocess.DEVNULL, check=True)
        if dumping.returncode:
            raise RuntimeError("pg_dump failed")
        return perf_counter() - began

    def peaks(self) -> dict[str, int]:
        """Return the peak memory since `forget` by kind of process, of the largest process of each kind."""
        kinds = self.pids | memory.family(os.getpid())
        return {kind: max(map(memory.peak, pids), default=0) for kind, pids in kinds.items()}

    def forget(self) -> None:
        """Reset the peaks."""
        for pids in (self.pids | memory.family(os.getpid())).values():
            memory.forget(pids)

    def _state(self, sync_id: str) -> str:
        with reading(self.source) as connection:
            found = send_snapshot.find(connection, sync_id)
        if found is None or found.error:
            raise RuntimeError(found.error if found else "the snapshot is gone")
        return found.state


def _build(_spark: Any, context: Any) -> Any:  # noqa: ANN401 - Spark's
    items = context.read_table("items", partitions=_PARTITIONS)
    return items.selectExpr("cast(body as binary) as payload", "cast(id as string) as item_key")


@contextmanager
def _serving(folder: Path, engine: Engine, site: str, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "lrq.cli.main", "serve", "--site", site, "--log-level", "warning", *options]
    url = engine.url.render_as_string(hide_password=False)
    environment = {**os.environ, "LRQ_DATABASE_URL": url, "LRQ_INITIAL_SYNC": "log"}
    with (folder / f"{site}.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log)
    try:
        if server.stdout is None or not server.stdout.readline():
            raise RuntimeError((folder / f"{site}.log").read_text())
        yield server
    finally:
        server.terminate()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
