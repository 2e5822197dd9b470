"""Small tables with frequent updates; see `queues.database.postgresql.rewriting`."""

from typing import Final

from queues.database.tables.servers import leases, servers
from queues.database.tables.sessions import sessions
from queues.database.tables.snapshots import snapshot_providers

REWRITTEN: Final = (sessions, snapshot_providers, leases)

#: Rewritten like these, but read only by servers, and never in a transaction with one snapshot.
REWRITTEN_UNKEPT: Final = (servers,)
