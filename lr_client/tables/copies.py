"""The tables that a listener copies: their names in the entries, their copies, and the rule between sources."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine

from lr_client.tables.row_changes import RowChange
from queues.database import dialects
from queues.database.copied_table import CopiedTable, CopyRule
from queues.errors import ConfigurationError, ListenerError, UsageError
from queues.sql_names import last_part, table_name


class Copies:
    """Finds the copy for each change; a copy is read again after `forget`, and if a column is missing."""

    def __init__(self, tables: Iterable[str] | Mapping[str, str | None], rule: CopyRule) -> None:
        """Know the names of *tables*; raise `UsageError` for a malformed one, and if no table is named."""
        self._targets: Final = _targets(tables)
        self._rule: Final = rule
        #: One listener may serve several sites of a program.
        self._read: Final = WeakKeyDictionary[Engine, dict[str, CopiedTable]]()

    def all(self, connection: Connection) -> list[CopiedTable]:
        """Return every copy, in the order of the names; raise `ConfigurationError` for one that cannot take rows."""
        targets = dict.fromkeys(target for target in self._targets.values() if target is not None)
        return [self._table(connection, target) for target in targets]

    def of_changes(
        self, connection: Connection, changes: Iterable[RowChange]
    ) -> Iterator[tuple[CopiedTable, RowChange]]:
        """Yield each of *changes* with its copy, but not those of tables that are left out.

        Raises `ListenerError` for a table that is not named, and `ConfigurationError` for a copy that lacks a column.
        """
        for change in changes:
            target = self._target(change.table)
            if target is not None:
                yield self._fitting(connection, target, change), change

    def forget(self, connection: Connection) -> None:
        """Read each copy again when it is needed."""
        self._read.pop(connection.engine, None)

    def _target(self, table: str) -> str | None:
        try:
            return self._targets[table]
        except KeyError:
            raise ListenerError(
                f"an entry changes {table}, which is no copied table: name the table, or give None for it"
            ) from None

    def _fitting(self, connection: Connection, target: str, change: RowChange) -> CopiedTable:
        table = self._table(connection, target)
        if self._missing(table, change):
            self.forget(connection)
            table = self._table(connection, target)
            if missing := self._missing(table, change):
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
            if name not in image.values and name != self._rule.source_column:
                return f"rows of {change.table} lack the column {name}, a key of {table.name}: give the copy their key"
        for name in self._rule.greatest:
            if name not in image.values:
                return f"rows of {change.table} lack the column {name}, which decides: add the column there"
        return ""

    def _table(self, connection: Connection, target: str) -> CopiedTable:
        known = self._read.setdefault(connection.engine, {})
        table = known.get(target)
        if table is None:
            table = dialects.of(connection).copied_table(connection, target)
            if problem := self._problem(table):
                raise ConfigurationError(problem)
            known[target] = table
        return table

    def _problem(self, table: CopiedTable) -> str:
        """Return the sentence about a copy that cannot take rows; empty if it can."""
        if last_part(table.name).startswith("lrq_"):
            return f"{table.name} is a table of lrq: copy into tables of the application"
        if not table.key:
            return f"{table.name} has no primary key: give the copy the key of its rows"
        own = self._rule.source_column
        if own is not None and own not in table.columns:
            return f"{table.name} has no column {own} for the source: add it"
        for name in self._rule.greatest:
            if name not in table.columns or name not in table.required:
                return f"{table.name} has no column {name} NOT NULL, which decides: add it, or declare it so"
        return ""


def _targets(tables: Iterable[str] | Mapping[str, str | None]) -> dict[str, str | None]:
    if isinstance(tables, str):
        raise UsageError(f"tables is the text {tables!r}: give a list, [{tables!r}]")
    pairs = tables.items() if isinstance(tables, Mapping) else [(name, name) for name in tables]
    found = {table_name(name): None if target is None else table_name(target) for name, target in pairs}
    if not any(found.values()):
        raise UsageError("no table is named: name the tables to copy, such as public.orders")
    return found
