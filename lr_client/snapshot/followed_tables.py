"""A snapshot provider for the tables that a client follows by `lrq_follow`, on PostgreSQL."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from sqlalchemy import Connection, text

from lr_client.snapshot.context import SnapshotContext
from lr_client.snapshot.sql_provider import transmit_queries
from lr_client.snapshot.sql_query import SqlQuery, SqlRow
from queues.errors import SnapshotFailedError
from queues.names import ClientName, SiteId


class FollowedTables:
    """A `SnapshotProvider` whose rows are those of the tables that its client follows: docs/sql.md.

    Each row is transmitted as `lrq_follow` sends an insert, so one listener serves the log and the snapshot. A site
    gets the tables that name it as a destination. With `destinations_column` the site gets the rows that name it.

    Example:
        >>> transmitter = client.start_snapshot_transmitter(engine, FollowedTables())
    """

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        """Transmit every row, table by table in the order of their names, then complete the snapshot.

        Raises `SnapshotFailedError` if the client follows no table for the site, or if a query fails.
        """
        site, client = context.destination, context.attempt.claimed.client
        with context.snapshot.connect() as connection:
            if connection.dialect.name != "postgresql":
                raise SnapshotFailedError("only PostgreSQL has followed tables: write a provider of your own")
            tables = [table for table in _followed(connection, client) if table.is_for(site)]
            if not tables:
                raise SnapshotFailedError(
                    f"client {client} follows no table for {site}: call lrq_follow with that site"
                )
            # The same settings as in the triggers, so that each value has the same text.
            connection.execute(_SAME_TEXTS).close()
            transmit_queries(context, connection, [table.query(connection, site) for table in tables])
        context.mark_completed()

    def cancel(self, context: SnapshotContext) -> None:
        """Do nothing: the next row raises `SnapshotCancelledError`."""


class _Followed(NamedTuple):
    """One followed table, with the arguments of its trigger."""

    name: str
    is_partitioned: bool
    kind: str
    destinations: str
    followed_as: str

    def is_for(self, site: SiteId) -> bool:
        return self.kind == _BY_COLUMN or site in self.destinations.split(",")

    def query(self, connection: Connection, site: SiteId) -> SqlQuery:
        """Return the query of the rows for *site*."""
        # A trigger of a partitioned table fires for its partitions, but no trigger for the tables that inherit.
        only = "" if self.is_partitioned else "ONLY "
        place = _literal(connection, self.followed_as if self.is_partitioned else self.name)
        chosen = f"SELECT json_build_object('table', {place}, 'op', 'insert', 'row', row_to_json(t.*))::text AS entry"
        sql = f"{chosen} FROM {only}{self.name} AS t"
        if self.kind != _BY_COLUMN:
            return SqlQuery(_escaped(sql), _payload)
        wanted = _NAMES_SITE.format(column=_literal(connection, self.destinations))
        return SqlQuery(f"{_escaped(sql)} WHERE {_escaped(wanted)} = :site)", _payload, parameters={"site": site})


def _followed(connection: Connection, client: ClientName) -> Iterator[_Followed]:
    for name, is_partitioned, arguments in connection.execute(_TRIGGERS).all():
        own, *settings = [each.decode() for each in bytes(arguments).split(b"\0")][:4]
        if own == client:
            yield _Followed(name, is_partitioned, *settings)


def _literal(connection: Connection, words: str) -> str:
    return str(connection.execute(text("SELECT quote_literal(:words)"), {"words": words}).scalar_one())


def _escaped(sql: str) -> str:
    return sql.replace(":", "\\:")


def _payload(row: SqlRow) -> bytes:
    return str(row["entry"]).encode()


_BY_COLUMN: Final = "column"
_SAME_TEXTS: Final = text(
    "SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO, YMD', true), "
    "set_config('intervalstyle', 'postgres', true), set_config('bytea_output', 'hex', true), "
    "set_config('extra_float_digits', '1', true)"
)
_TRIGGERS: Final = text(
    "SELECT format('%I.%I', n.nspname, c.relname), c.relkind = 'p', t.tgargs FROM pg_trigger t "
    "JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE t.tgfoid = to_regprocedure('lrq_follow_row()') AND t.tgparentid = 0 AND t.tgenabled <> 'D' "
    'ORDER BY n.nspname, c.relname COLLATE "C"'
)
# The column holds text with commas, or text[]: as the trigger reads it.
_NAMES_SITE: Final = (
    "EXISTS (SELECT FROM jsonb_array_elements_text(CASE jsonb_typeof(to_jsonb(t.*) -> {column}) "
    "WHEN 'array' THEN to_jsonb(t.*) -> {column} "
    "WHEN 'string' THEN to_jsonb(string_to_array(to_jsonb(t.*) ->> {column}, ',')) ELSE '[]' END) AS n (name) "
    "WHERE btrim(n.name)"
)
