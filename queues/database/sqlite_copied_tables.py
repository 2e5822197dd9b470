"""Rows of followed tables, written into tables of the same form in a file of SQLite."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection, text

from queues.database.copied_table import CopiedTable, CopyRule, RowImage
from queues.database.sqlite_values import stored_value
from queues.errors import ConfigurationError
from queues.sql_names import last_part, quoted


class SqliteCopiedTables:
    """See `queues.database.dialect.CopiedTableStatements`; the driver's `executemany` writes row by row."""

    def copied_table(self, connection: Connection, name: str) -> CopiedTable:
        """Read the columns; a schema in *name* is left out."""
        plain = last_part(name)
        own = connection.execute(_OWN_NAME, {"name": plain}).scalar()
        if own is None:
            raise ConfigurationError(f"there is no table {plain}: create it, or correct the name")
        columns = connection.execute(_COLUMNS, {"name": own}).all()
        key = [each.name for each in sorted(columns, key=lambda each: each.pk) if each.pk > 0]
        return CopiedTable(
            quoted(own),
            columns={each.name: each.type for each in columns if not each.hidden},
            generated=frozenset(each.name for each in columns if each.hidden),
            required=frozenset(each.name for each in columns if each.notnull or each.name in key),
            texts=frozenset(),
            fixed=frozenset(key),
            key=tuple(key),
            commutes=not connection.execute(_SEES_ORDER, {"name": own}).scalar(),
        )

    def put_rows(
        self,
        connection: Connection,
        table: CopiedTable,
        columns: tuple[str, ...],
        rows: Sequence[RowImage],
        rule: CopyRule,
        source: str,
    ) -> int:
        """Insert or update the rows."""
        types = [table.columns[name] for name in columns]
        given = [(*_named(rule, source), *_values(row, columns, types)) for row in rows]
        return connection.exec_driver_sql(_put(table.name, table.key, columns, rule), given).rowcount

    def delete_rows(
        self, connection: Connection, table: CopiedTable, rows: Sequence[RowImage], rule: CopyRule, source: str
    ) -> None:
        """Delete the rows."""
        keys = tuple(name for name in table.key if name != rule.source_column)
        types = [table.columns[name] for name in keys]
        given = [(*_values(row, keys, types), *_named(rule, source)) for row in rows]
        connection.exec_driver_sql(_delete(table.name, keys, rule.source_column), given).close()

    def clear_rows(self, connection: Connection, table: CopiedTable, rule: CopyRule, source: str) -> None:
        """Delete the rows by one statement."""
        connection.exec_driver_sql(_delete(table.name, (), rule.source_column), _named(rule, source)).close()


def _named(rule: CopyRule, source: str) -> tuple[str, ...]:
    return () if rule.source_column is None else (source,)


def _values(row: RowImage, columns: Sequence[str], types: Sequence[str]) -> list[object]:
    return [stored_value(row.values[name], declared) for name, declared in zip(columns, types, strict=True)]


@lru_cache(1000)
def _put(table: str, key: tuple[str, ...], columns: tuple[str, ...], rule: CopyRule) -> str:
    names = [quoted(name) for name in columns]
    changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in columns if name not in key)
    wanted = ""
    if rule.source_column is not None:
        own = quoted(rule.source_column)
        names = [own, *names]
        wanted = f" WHERE {table}.{own} = excluded.{own}"
    if rule.greatest:
        before, after = (", ".join(f"{row}.{quoted(name)}" for name in rule.greatest) for row in (table, "excluded"))
        wanted = f" WHERE ({before}) < ({after})"
    marks = ", ".join("?" for _ in names)
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}) "  # noqa: S608 - quoted names
        f"ON CONFLICT ({', '.join(map(quoted, key))}) DO {f'UPDATE SET {changed}{wanted}' if changed else 'NOTHING'}"
    )


@lru_cache(1000)
def _delete(table: str, keys: tuple[str, ...], source_column: str | None) -> str:
    names = keys if source_column is None else (*keys, source_column)
    same = " AND ".join(f"{quoted(name)} = ?" for name in names)
    return f"DELETE FROM {table}{f' WHERE {same}' if same else ''}"  # noqa: S608 - quoted names


_OWN_NAME: Final = text(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = :name COLLATE NOCASE"
    " AND sql NOT LIKE 'CREATE VIRTUAL%'"
)
_COLUMNS: Final = text('SELECT name, type, pk, hidden, "notnull" FROM pragma_table_xinfo(:name)')
_SEES_ORDER: Final = text(
    "SELECT EXISTS (SELECT 1 FROM pragma_index_list(:name) WHERE \"unique\" AND origin <> 'pk')"
    " OR EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = :name COLLATE NOCASE)"
    " OR (SELECT foreign_keys FROM pragma_foreign_keys)"
)
