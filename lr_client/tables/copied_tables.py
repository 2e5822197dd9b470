"""The listener that copies followed tables (docs/copied-tables.md)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from lr_client.subscriber.column_batch import ColumnBatch
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.tables.plan import Put, Step, plan
from lr_client.tables.row_changes import RowChange, row_change
from queues import names
from queues.database import dialects
from queues.database.copied_table import CopiedTable, Owner
from queues.errors import ConfigurationError, ListenerError, UsageError
from queues.receive.registry import registered
from queues.table_names import table_name
from queues.wire.entry_pb2 import RoutingTableEntryMsg


class CopiedTables(RoutingQueueListener):
    """A listener that makes tables of this site equal to tables that the source follows by `lrq_follow`.

    *tables* names them as the entries do, such as `public.orders`. A mapping gives another name of the copy at this
    site, or None for changes that are left out. SQLite ignores the schema. Each copy has a primary key.

    A row that the source inserts or updates is inserted here, or replaces the row of its key. A snapshot deletes all
    rows of the copies first. For rows of several sources, *source_column* names a column of each copy. The listener
    fills the column with the source's site id, and each source changes only its own rows.

    An entry that is no such change, or whose table is not named, is refused by `ListenerError`. `ConfigurationError`
    refuses the entries until a table has the columns and the key that it needs.

    Example:
        >>> subscription = subscribe(engine, CopiedTables("orders", ["public.orders"]))
    """

    def __init__(
        self, client: str, tables: Iterable[str] | Mapping[str, str | None], *, source_column: str | None = None
    ) -> None:
        """Copy *tables* of *client*; raise `UsageError` for a malformed name, and if no table is named."""
        self.client_name: names.ClientName = names.client_name(client)
        self._targets: Final = _targets(tables)
        if source_column is not None and not (isinstance(source_column, str) and source_column):
            raise UsageError(f"source_column is {source_column!r}: name a column of the copies")
        self._source_column: Final = source_column
        #: One object may listen at several sites of a program.
        self._read: Final = WeakKeyDictionary[Engine, dict[str, CopiedTable]]()

    def require_tables(self, connection: Connection) -> None:
        """Raise `ConfigurationError` unless every copy is a table with a primary key and the source column."""
        self._forget(connection)
        for target in self._copies():
            self._table(connection, target)

    def process_updates_in_log_entry_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Carry out the changes of *entries*."""
        return self._carry_out(session, source_id, [entry.opaque_payload for entry in entries])

    def process_updates_in_snapshot_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Insert the rows of *entries*."""
        return self._carry_out(session, source_id, [entry.opaque_payload for entry in entries])

    def process_snapshot_columns(self, session: Session, source_id: str, columns: ColumnBatch) -> bool:
        """Insert the rows of *columns*."""
        return self._carry_out(session, source_id, columns.payloads)

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:
        """Delete the rows of the source: all rows of the copies, unless a column names the source of each row.

        Raises `ConfigurationError` if the site receives this client from several sources, and no column names them.
        """
        connection = session.connection()
        owner = self._owner(source_id)
        others = [each.source for each in registered(connection, self.client_name) if each.source != source_id]
        if owner is None and others:
            raise ConfigurationError(
                f"the snapshot of {source_id} would delete the rows of {', '.join(sorted(others))}: "
                "give source_column, and each copy a column for the source of its rows"
            )
        # The last table of the list may refer to the first one.
        for target in reversed(self._copies()):
            dialects.of(connection).clear_rows(connection, self._table(connection, target), owner)

    def _copies(self) -> list[str]:
        return list(dict.fromkeys(target for target in self._targets.values() if target is not None))

    def _owner(self, source_id: str) -> Owner | None:
        return None if self._source_column is None else Owner(self._source_column, source_id)

    def _carry_out(self, session: Session, source_id: str, payloads: Iterable[bytes]) -> bool:
        connection = session.connection()
        owner = self._owner(source_id)
        try:
            changes = [
                (self._fitting(connection, target, change), change)
                for change in map(row_change, payloads)
                if (target := self._target(change)) is not None
            ]
            for step in plan(changes, self._source_column):
                _carry_out(connection, step, owner)
        except Exception:
            # A table may have changed since it was read; the call is repeated.
            self._forget(connection)
            raise
        return True

    def _target(self, change: RowChange) -> str | None:
        try:
            return self._targets[change.table]
        except KeyError:
            raise ListenerError(
                f"client {self.client_name} brings a change of {change.table}, which is no copied table: "
                "name the table, or give None for it"
            ) from None

    def _fitting(self, connection: Connection, target: str, change: RowChange) -> CopiedTable:
        """Return the copy, read again if it lacks a column of the row."""
        table = self._table(connection, target)
        if missing := self._missing(table, change):
            self._forget(connection)
            table = self._table(connection, target)
            missing = self._missing(table, change)
        if missing:
            raise ConfigurationError(missing)
        return table

    def _missing(self, table: CopiedTable, change: RowChange) -> str:
        """Return the sentence about a column that the copy or the row lacks; empty if all are there."""
        image = change.row or change.old
        assert image is not None
        for name in image.values if change.row else ():
            if name not in table.columns and name not in table.generated:
                return f"{table.name} has no column {name}, which rows of {change.table} have: add the column"
        for name in table.key:
            if name not in image.values and name != self._source_column:
                return f"rows of {change.table} lack the column {name}, a key of {table.name}: give the copy their key"
        return ""

    def _table(self, connection: Connection, target: str) -> CopiedTable:
        known = self._read.setdefault(connection.engine, {})
        table = known.get(target)
        if table is None:
            table = dialects.of(connection).copied_table(connection, target)
            if not table.key:
                raise ConfigurationError(f"{table.name} has no primary key: give the copy the key of its rows")
            if self._source_column is not None and self._source_column not in table.columns:
                raise ConfigurationError(f"{table.name} has no column {self._source_column} for the source: add it")
            known[target] = table
        return table

    def _forget(self, connection: Connection) -> None:
        self._read.pop(connection.engine, None)


def _targets(tables: Iterable[str] | Mapping[str, str | None]) -> dict[str, str | None]:
    if isinstance(tables, str):
        raise UsageError(f"tables is the text {tables!r}: give a list, [{tables!r}]")
    pairs = tables.items() if isinstance(tables, Mapping) else [(name, name) for name in tables]
    found = {table_name(name): None if target is None else table_name(target) for name, target in pairs}
    if not any(found.values()):
        raise UsageError("no table is named: name the tables to copy, such as public.orders")
    return found


def _carry_out(connection: Connection, step: Step, owner: Owner | None) -> None:
    dialect = dialects.of(connection)
    if not isinstance(step, Put):
        dialect.delete_rows(connection, step.table, step.rows, owner)
        return
    count = dialect.put_rows(connection, step.table, step.columns, step.rows, owner)
    only_keys = all(name in step.table.fixed for name in step.columns)
    if count != len(step.rows) and not only_keys:
        raise ListenerError(_not_written(step.table, owner), refused=True)


def _not_written(table: CopiedTable, owner: Owner | None) -> str:
    if owner is None:
        return f"a trigger or rule left rows out of {table.name}: drop it, or let the trigger fire AFTER"
    return (
        f"a row of {owner.site} has the key of another source's row in {table.name}: "
        f"make the column {owner.column} part of the primary key"
    )
