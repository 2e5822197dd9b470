"""A snapshot provider for the tables that a client follows."""

from lr_client.snapshot.context import SnapshotContext
from lr_client.snapshot.sql_provider import transmit_queries
from lr_client.snapshot.sql_query import SqlQuery, SqlRow
from queues.database import dialects
from queues.errors import SnapshotFailedError


class FollowedTables:
    """A `SnapshotProvider` whose rows are those of the tables that its client follows: docs/sql.md.

    Each row is transmitted as `lrq_follow` sends an insert, so one listener serves the log and the snapshot. A site
    gets the tables that name it as a destination. With `destinations_column` the site gets the rows that name it.

    Example:
        >>> transmitter = client.start_snapshot_transmitter(engine, FollowedTables())
    """

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        """Transmit every row, table by table, then complete the snapshot.

        A table comes after those to which its foreign keys refer, else the order is that of the names.

        Raises `SnapshotFailedError` if the client follows no table for the site, or if a query fails.
        """
        site, client = context.destination, context.attempt.claimed.client
        with context.snapshot.connect() as connection:
            found = dialects.of(connection).followed_rows(connection, client, site)
            if not found:
                words = f"client {client} follows no table for {site}: run lrq follow with that site"
                raise SnapshotFailedError(words)
            queries = [SqlQuery(each.query, _payload, parameters=each.parameters) for each in found]
            transmit_queries(context, connection, queries)
        context.mark_completed()

    def cancel(self, context: SnapshotContext) -> None:
        """Do nothing: the next row raises `SnapshotCancelledError`."""


def _payload(row: SqlRow) -> bytes:
    return str(row["entry"]).encode()
