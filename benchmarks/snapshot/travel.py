"""The time of a snapshot from the request to "applied", against `pg_dump | psql` of the same table.

A snapshot is "applied" once the second database's receive queue durably holds every row and the mark that publishes
them. `pg_dump | psql` ends when its rows, and their index, are in the second database.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from sqlalchemy import Engine, text

import queues
from benchmarks.snapshot import cpu, memory
from benchmarks.snapshot.postgres import Server, empty, libpq, settle
from benchmarks.snapshot.stages import Watch
from lr_client.snapshot.requests import SnapshotContext, SnapshotProvider, SnapshotTransmitter, request_snapshot_sync
from lr_client.snapshot.sql_provider import SqlSnapshotProvider
from lr_client.snapshot.sql_query import SqlRow
from lr_client.spark import SparkSnapshotProvider
from queues.database.tables.receive import receive_snapshot_blocks
from queues.database.tables.snapshots import snapshot_blocks

SOURCE, SINK = "paris", "tokyo"
#: The client whose provider is Spark, and the client whose provider is one query in plain Python.
SPARK, PLAIN = "bench", "plain"
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
        self._postmaster = cpu.postmaster(self.source)
        self._rows = 0
        self._watch: Watch | None = None

    def fill(self, rows: int, size: int) -> None:
        """Fill `items` with *rows* rows of *size* bytes."""
        self._rows = rows
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
        """Run the two servers, and serve snapshot requests with Spark and with a plain provider."""
        address = f"ipc://{self._folder}/sink.socket"
        by_spark = SparkSnapshotProvider(self._spark, self._build)
        by_query = SqlSnapshotProvider("SELECT id, body FROM items", encode=_encoded, item_key="id")
        with ExitStack() as stack:
            sink = stack.enter_context(_serving(self._folder, self.sink, SINK, "--listen", address))
            for client, provider in ((SPARK, by_spark), (PLAIN, by_query)):
                stack.enter_context(SnapshotTransmitter(self.source, client, _Noted(provider, self._note)))
            source = stack.enter_context(_serving(self._folder, self.source, SOURCE, "--peer", f"{SINK}={address}"))
            self.pids = {"server": [source.pid], "sink": [sink.pid]}
            yield

    def by_lrq(self, client: str = SPARK) -> Mapping[str, float]:
        """Return the seconds until each fact of one snapshot, `applied` the last; needs `running`."""
        for engine, table in ((self.source, snapshot_blocks), (self.sink, receive_snapshot_blocks)):
            empty(engine, table.name)
        settle(self.sink)
        self._watch = Watch(self.source, self.sink, self._rows)
        with self.source.begin() as connection:
            sync_id = request_snapshot_sync(connection, client, SINK)
        return self._watch.follow(sync_id)

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

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds so far by kind of process; needs `running`."""
        return cpu.used(self.pids, self._postmaster)

    def peaks(self) -> dict[str, int]:
        """Return the peak memory since `forget` by kind of process, of the largest process of each kind."""
        kinds = self.pids | memory.family(os.getpid())
        return {kind: max(map(memory.peak, pids), default=0) for kind, pids in kinds.items()}

    def forget(self) -> None:
        """Reset the peaks."""
        for pids in (self.pids | memory.family(os.getpid())).values():
            memory.forget(pids)

    def _note(self, fact: str) -> None:
        if self._watch is not None:
            self._watch.note(fact)

    def _build(self, _spark: Any, context: Any) -> Any:  # noqa: ANN401 - Spark's
        items = context.read_table("items", partitions=_PARTITIONS)
        rows = items.selectExpr("cast(body as binary) as payload", "cast(id as string) as item_key")
        self._note("built")
        return rows


class _Noted:
    """A provider that notes the begin of its work."""

    def __init__(self, provider: SnapshotProvider, note: Callable[[str], None]) -> None:
        self._provider = provider
        self._note = note

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        self._note("provider")
        self._provider.provide_full_state_data(context)

    def cancel(self, context: SnapshotContext) -> None:
        self._provider.cancel(context)


def _encoded(row: SqlRow) -> bytes:
    return cast("str", row.body).encode()


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
