"""procrastinate: one job per entry and destination, one worker process per destination."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg

from benchmarks.contender import Place
from benchmarks.contenders.carried import CarriedUnordered
from benchmarks.contenders.tables import SOURCE, Databases
from benchmarks.contenders.workers import Told
from benchmarks.workload import Entry


class Procrastinate(CarriedUnordered):
    """Defers jobs in the application's transaction, with one call per destination."""

    name = "procrastinate"
    share = 0.05

    def prepare(self, place: Place, destinations: int) -> None:
        """Start the workers."""
        from procrastinate import App, SyncPsycopgConnector

        self._databases = databases = Databases(place.cluster, destinations)
        source = place.cluster.conninfo(SOURCE)
        self._app = App(connector=SyncPsycopgConnector(conninfo=source))
        self._app.open()
        self._app.schema_manager.apply_schema()
        self._connection = psycopg.connect(source)
        self._written = 0
        for number, sink in enumerate(databases.sinks):
            self._workers.start(work, source, place.cluster.conninfo(sink), f"sink{number}")
        self._workers.wait_ready()

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Defer one job per entry and destination."""
        jobs: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for entry in entries:
            self._written += 1
            for target in entry.targets:
                jobs[target].append({"number": self._written, "payload": entry.payload.decode()})
        with self._connection.transaction():
            for target, arguments in jobs.items():
                options: dict[str, Any] = {"queue": f"sink{target}", "connection": self._connection}
                self._app.configure_task("deliver", **options).batch_defer(*arguments)

    def close(self) -> None:
        """Stop the workers and drop the databases."""
        self._workers.stop()
        self._connection.close()
        self._app.close()
        self._databases.close()


def work(told: Told, source: str, sink: str, name: str) -> None:
    """Run one worker."""
    with suppress(asyncio.CancelledError):
        asyncio.run(_work(told, source, sink, name))


async def _work(told: Told, source: str, sink: str, name: str) -> None:
    from procrastinate import App, PsycopgConnector

    here = await psycopg.AsyncConnection.connect(sink, autocommit=True)
    await here.execute("SET synchronous_commit = off")
    app = App(connector=PsycopgConnector(conninfo=source))

    @app.task(name="deliver")
    async def deliver(number: int, payload: str) -> None:
        await here.execute("INSERT INTO entries VALUES (%s, %s) ON CONFLICT DO NOTHING", (number, payload.encode()))

    async with app.open_async():
        told.ready()
        running = asyncio.create_task(
            app.run_worker_async(
                queues=[name], concurrency=10, delete_jobs="always", install_signal_handlers=False,
                shutdown_graceful_timeout=1,
            )
        )  # fmt: skip
        await asyncio.to_thread(told.over, None)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
