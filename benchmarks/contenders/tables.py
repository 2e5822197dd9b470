"""The tables of contenders other than lrq: a source, and one table of entries per destination."""

from collections.abc import Sequence
from typing import Any, Final

import psycopg
from sqlalchemy import Connection, Engine, create_engine, text

from benchmarks.cluster import Cluster
from benchmarks.workload import Entry

SOURCE: Final = "bench_source"
#: The table in every destination, and in the source of contenders that copy tables.
ENTRIES: Final = "CREATE TABLE entries (id bigint PRIMARY KEY, payload bytea NOT NULL)"

#: The source's table of contenders whose database numbers the entries; `insert_plainly` writes to this table.
PLAIN: Final = "CREATE TABLE entries (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL)"
_INSERT: Final = text("INSERT INTO entries (payload) VALUES (:payload)")


def insert_plainly(connection: Connection, entries: Sequence[Entry]) -> None:
    """Insert entries as an application without replication would."""
    connection.execute(_INSERT, [{"payload": entry.payload} for entry in entries])


def destination_name(number: int) -> str:
    """Return the database name of a destination."""
    return f"bench_sink_{number}"


class Databases:
    """The databases of one contender, and a connection to each destination to follow its progress."""

    def __init__(self, cluster: Cluster, destinations: int, table: str = ENTRIES) -> None:
        """Create empty databases, with *table* in every destination."""
        self.cluster = cluster
        self.sinks = [destination_name(number) for number in range(destinations)]
        cluster.create(SOURCE, *self.sinks)
        for sink in self.sinks:
            if table:
                cluster.execute(sink, table)
        self.engine: Engine = create_engine(cluster.url(SOURCE))
        self._eyes: list[psycopg.Connection[tuple[Any, ...]]] = [cluster.connect(sink) for sink in self.sinks]

    def ask(self, destination: int, query: str) -> tuple[Any, ...]:
        """Return the row that a query gives at a destination."""
        row = self._eyes[destination].execute(query, prepare=True).fetchone()
        assert row is not None
        return tuple(row)

    def newest(self, destination: int) -> int:
        """Return the highest id at a destination."""
        return int(self.ask(destination, "SELECT coalesce(max(id), 0) FROM entries")[0])

    def stored(self, destination: int) -> tuple[int, int]:
        """Count all rows and the distinct ones."""
        rows, different = self.ask(destination, "SELECT count(*), count(DISTINCT id) FROM entries")
        return int(rows), int(different)

    def source(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements at the source."""
        return self.cluster.execute(SOURCE, *statements)

    def close(self) -> None:
        """Close the connections and drop the databases."""
        for eye in self._eyes:
            eye.close()
        self.engine.dispose()
        self.cluster.drop(*self.sinks, SOURCE)
