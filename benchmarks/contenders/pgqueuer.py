"""pgqueuer: one job per entry and destination, one worker process per destination."""

import asyncio
from collections.abc import Sequence
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from benchmarks.contender import Place
from benchmarks.contenders.carried import CarriedUnordered
from benchmarks.contenders.tables import SOURCE, Databases
from benchmarks.contenders.workers import Told
from benchmarks.workload import Entry

_NUMBER = 8


class PgQueuer(CarriedUnordered):
    """Enqueues jobs in the application's transaction, all with one call; workers take 100 at a time."""

    name = "pgqueuer"
    share = 0.1

    def prepare(self, place: Place, destinations: int) -> None:
        """Start the workers."""
        self._databases = databases = Databases(place.cluster, destinations)
        asyncio.run(_install(place.cluster.conninfo(SOURCE)))
        self._connection = place.cluster.connect(SOURCE)
        self._written = 0
        for number, sink in enumerate(databases.sinks):
            self._workers.start(work, place.cluster.conninfo(SOURCE), place.cluster.conninfo(sink), f"sink{number}")
        self._workers.wait_ready()

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Enqueue one job per entry and destination."""
        from pgqueuer.db import SyncPsycopgDriver
        from pgqueuer.queries import SyncQueries

        names: list[str] = []
        payloads: list[bytes | None] = []
        for entry in entries:
            self._written += 1
            names += [f"sink{target}" for target in entry.targets]
            payloads += [self._written.to_bytes(_NUMBER) + entry.payload] * len(entry.targets)
        with self._connection.transaction():
            SyncQueries(SyncPsycopgDriver(self._connection)).enqueue(names, payloads, [0] * len(names))

    def close(self) -> None:
        """Stop the workers and drop the databases."""
        self._workers.stop()
        self._connection.close()
        self._databases.close()


def _reach(conninfo: str) -> dict[str, Any]:
    parts = conninfo_to_dict(conninfo)
    return {"host": parts["host"], "user": parts["user"], "database": parts["dbname"]}


async def _install(source: str) -> None:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(**_reach(source))
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


def work(told: Told, source: str, sink: str, name: str) -> None:
    """Run one worker."""
    asyncio.run(_work(told, source, sink, name))


async def _work(told: Told, source: str, sink: str, name: str) -> None:
    import asyncpg
    from pgqueuer import QueueManager
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    there = await asyncpg.connect(**_reach(source))
    here = await asyncpg.create_pool(
        **_reach(sink), min_size=4, max_size=4, server_settings={"synchronous_commit": "off"}
    )
    manager = QueueManager(Queries(AsyncpgDriver(there)))

    @manager.entrypoint(name)
    async def deliver(job: Any) -> None:  # noqa: ANN401 - untyped
        number, payload = int.from_bytes(job.payload[:_NUMBER]), job.payload[_NUMBER:]
        await here.execute("INSERT INTO entries VALUES ($1, $2) ON CONFLICT DO NOTHING", number, payload)

    async def end() -> None:
        await asyncio.to_thread(told.over, None)
        manager.shutdown.set()

    told.ready()
    ending = asyncio.create_task(end())
    await manager.run(batch_size=100)
    await ending
