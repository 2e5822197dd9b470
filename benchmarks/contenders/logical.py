"""PostgreSQL's logical replication: one row-filtered publication and one subscription per destination."""

from collections.abc import Sequence

from sqlalchemy import text

from benchmarks.cluster import until
from benchmarks.contender import Place
from benchmarks.contenders.tables import SOURCE, Databases
from benchmarks.workload import Entry

_TABLE = (
    "CREATE TABLE entries (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, targets bigint NOT NULL,"
    " payload bytea NOT NULL)"
)
_INSERT = text("INSERT INTO entries (targets, payload) VALUES (:targets, :payload)")


class LogicalReplication:
    """Logical replication in the binary format, which is faster than the default."""

    name = "logical replication"
    ordered = True
    #: The subscriber's `synchronous_commit`; "off" is the default of a subscription.
    synchronous_commit = "off"

    def prepare(self, place: Place, destinations: int) -> None:
        """Create a slot, a publication and a subscription for each destination."""
        self._databases = databases = Databases(place.cluster, destinations)
        databases.source(_TABLE)
        for number, sink in enumerate(databases.sinks):
            databases.source(
                f"CREATE PUBLICATION p{number} FOR TABLE entries (id, payload)"
                f" WHERE ((targets & {1 << number}) <> 0) WITH (publish = 'insert')",
                # Within one server, CREATE SUBSCRIPTION would deadlock if it created the slot.
                f"SELECT pg_create_logical_replication_slot('bench_{number}', 'pgoutput')",
            )
            place.cluster.execute(
                sink,
                f"CREATE SUBSCRIPTION s{number} CONNECTION '{place.cluster.conninfo(SOURCE)}' PUBLICATION p{number}"
                f" WITH (create_slot = false, slot_name = 'bench_{number}', copy_data = false, binary = true,"
                f" synchronous_commit = {self.synchronous_commit})",
            )

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert the entries."""
        with self._databases.engine.begin() as connection:
            connection.execute(_INSERT, [{"targets": entry.mask, "payload": entry.payload} for entry in entries])

    def progress(self, destination: int) -> int:
        """Return the newest entry at the destination."""
        return self._databases.newest(destination)

    def stored(self, destination: int) -> tuple[int, int]:
        """Count the rows of the destination."""
        return self._databases.stored(destination)

    def close(self) -> None:
        """Drop the subscriptions and the databases."""
        databases = self._databases
        for number, sink in enumerate(databases.sinks):
            databases.cluster.execute(
                sink,
                f"ALTER SUBSCRIPTION s{number} DISABLE",
                f"ALTER SUBSCRIPTION s{number} SET (slot_name = NONE)",
                f"DROP SUBSCRIPTION s{number}",
            )
        until(lambda: not databases.source("SELECT 1 FROM pg_replication_slots WHERE active"), 30)
        databases.source("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        databases.close()


class LogicalReplicationSynced(LogicalReplication):
    """Logical replication whose subscriber waits for the disk at each commit."""

    name = "logical replication, synced"
    synchronous_commit = "on"
