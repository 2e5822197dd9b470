"""The listener that copies followed tables (docs/copied-tables.md)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from lr_client.subscriber.column_batch import ColumnBatch
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.tables.copies import Copies
from lr_client.tables.plan import Put, Step, plan
from lr_client.tables.row_changes import row_change
from queues import names
from queues.database import dialects
from queues.database.copied_table import CopiedTable, CopyRule
from queues.database.left_out import left_out
from queues.errors import ConfigurationError, ListenerError, UsageError
from queues.receive.registry import registered
from queues.wire.entry_pb2 import RoutingTableEntryMsg


class CopiedTables(RoutingQueueListener):
    """A listener that makes tables of this site equal to tables that the source follows by `lrq_follow`.

    *tables* names them as the entries do, such as `public.orders`. A mapping gives another name of the copy at this
    site, or None for changes that are left out. SQLite ignores the schema. Each copy has a primary key.

    A row that the source inserts or updates is inserted here, or replaces the row of its key. A snapshot deletes all
    rows of the copies first.

    For rows of several sources, *source_column* names a column of each copy. The listener fills the column with the
    source's site id, and each source changes only its own rows.

    For tables that several sites change, *greatest* names columns of the rows. A row then replaces another one only if
    its values there, compared in order, are greater. Deletes are ignored, also by a snapshot: docs/two-way.md.

    An entry that is no such change, or whose table is not named, is refused by `ListenerError`. `ConfigurationError`
    refuses the entries until a table has the columns and the key that it needs.

    Example:
        >>> subscription = subscribe(engine, CopiedTables("orders", ["public.orders"]))
    """

    def __init__(
        self,
        client: str,
        tables: Iterable[str] | Mapping[str, str | None],
        *,
        source_column: str | None = None,
        greatest: Sequence[str] = (),
    ) -> None:
        """Copy *tables* of *client*.

        Raises `UsageError` for a malformed name, for *source_column* together with *greatest*, and if no table is
        named.
        """
        self.client_name: names.ClientName = names.client_name(client)
        self._rule: Final = _rule(source_column, greatest)
        self._copies: Final = Copies(tables, self._rule)

    def require_tables(self, connection: Connection) -> None:
        """Raise `ConfigurationError` unless every copy is a table with a primary key and the columns of the rule."""
        self._copies.forget(connection)
        self._copies.all(connection)

    def process_updates_in_log_entry_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Carry out the changes of *entries*."""
        return self._carry_out(session, source_id, [entry.opaque_payload for entry in entries])

    def process_updates_in_snapshot_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Put the rows of *entries*."""
        return self._carry_out(session, source_id, [entry.opaque_payload for entry in entries])

    def process_snapshot_columns(self, session: Session, source_id: str, columns: ColumnBatch) -> bool:
        """Put the rows of *columns*."""
        return self._carry_out(session, source_id, columns.payloads)

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:
        """Delete the rows that the snapshot replaces: those of the source, or all rows without a source column.

        Raises `ConfigurationError` if the site receives this client from several sources, and no column names them.
        """
        if self._rule.greatest:
            return
        connection = session.connection()
        others = [each.source for each in registered(connection, self.client_name) if each.source != source_id]
        if self._rule.source_column is None and others:
            raise ConfigurationError(
                f"the snapshot of {source_id} would delete the rows of {', '.join(sorted(others))}: "
                "give source_column, and each copy a column for the source of its rows"
            )
        # The last table of the list may refer to the first one.
        for table in reversed(self._copies.all(connection)):
            dialects.of(connection).clear_rows(connection, table, self._rule, source_id)

    def _carry_out(self, session: Session, source_id: str, payloads: Iterable[bytes]) -> bool:
        connection = session.connection()
        try:
            changes = self._copies.of_changes(connection, map(row_change, payloads))
            for step in plan(changes, self._rule):
                _carry_out(connection, step, self._rule, source_id)
        except Exception:
            # A table may have changed since it was read; the call is repeated.
            self._copies.forget(connection)
            raise
        return True


def _rule(source_column: str | None, greatest: Sequence[str]) -> CopyRule:
    if source_column is not None and not (isinstance(source_column, str) and source_column):
        raise UsageError(f"source_column is {source_column!r}: name a column of the copies")
    if isinstance(greatest, str) or not all(isinstance(name, str) and name for name in greatest):
        raise UsageError(f"greatest is {greatest!r}: give a list of columns, such as ['version', 'site']")
    if greatest and source_column is not None:
        raise UsageError("source_column and greatest are two rules for one row: give one of them")
    return CopyRule(source_column, tuple(greatest))


def _carry_out(connection: Connection, step: Step, rule: CopyRule, source: str) -> None:
    dialect = dialects.of(connection)
    if not isinstance(step, Put):
        dialect.delete_rows(connection, step.table, step.rows, rule, source)
        return
    count = dialect.put_rows(connection, step.table, step.columns, step.rows, rule, source)
    may_keep = rule.greatest or all(name in step.table.fixed for name in step.columns)
    if count != len(step.rows) and not may_keep:
        raise ListenerError(_not_written(step.table, rule, source), refused=True)


def _not_written(table: CopiedTable, rule: CopyRule, source: str) -> str:
    if rule.source_column is None:
        return left_out(table.name)
    return (
        f"a row of {source} has the key of another source's row in {table.name}: "
        f"make the column {rule.source_column} part of the primary key"
    )
