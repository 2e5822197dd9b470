"""Rows of followed tables, written into tables of the same form in a file of SQLite."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection, text

from queues.database.copied_table import CopiedTable, Owner, RowImage
from queues.database.sqlite_values import stored_value
from queues.errors import ConfigurationError
from queues.table_names import last_part


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
            _quoted(own),
            {each.name: each.type for each in columns if not each.hidden},
            frozenset(each.name for each in columns if each.hidden),
            frozenset(key),
            tuple(key),
            commutes=not connection.execute(_SEES_ORDER, {"name": own}).scalar(),
        )

    def put_rows(
        self,
        connection: Connection,
        table: CopiedTable,
        columns: tuple[str, ...],
        rows: Sequence[RowImage],
        owner: Owner | None,
    ) -> int:
        """Insert or update the rows."""
        types = [table.columns[name] for name in columns]
        site = () if owner is None else (owner.site,)
        given = [(*site, *_values(row, columns, types)) for row in rows]
        statement = _put(table.name, table.key, columns, owner and owner.column)
        return connection.exec_driver_sql(statement, given).rowcount

    def delete_rows(
        self, connection: Connection, table: CopiedTable, rows: Sequence[RowImage], owner: Owner | None
    ) -> None:
        """Delete the rows."""
        keys = tuple(name for name in table.key if owner is None or name != owner.column)
        types = [table.columns[name] for name in keys]
        site = () if owner is None else (owner.site,)
        given = [(*_values(row, keys, types), *site) for row in rows]
        connection.exec_driver_sql(_delete(table.name, keys, owner and owner.column), given).close()

    def clear_rows(self, connection: Connection, table: CopiedTable, owner: Owner | None) -> None:
        """Delete the rows, all or those of the owner."""
        if owner is None:
            connection.exec_driver_sql(f"DELETE FROM {table.name}").close()  # noqa: S608 - a quoted name
        else:
            connection.exec_driver_sql(_delete(table.name, (), owner.column), (owner.site,)).close()


def _values(row: RowImage, columns: Sequence[str], types: Sequence[str]) -> list[object]:
    return [stored_value(row.values[name], declared) for name, declared in zip(columns, types, strict=True)]


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


@lru_cache(1000)
def _put(table: str, key: tuple[str, ...], columns: tuple[str, ...], owner: str | None) -> str:
    names = [_quoted(name) for name in columns]
    changed = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in columns if name not in key)
    wanted = ""
    if owner is not None:
        own = _quoted(owner)
        names = [own, *names]
        wanted = f" WHERE {own} = excluded.{own}"
    marks = ", ".join("?" for _ in names)
    keys = ", ".join(map(_quoted, key))
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}) "  # noqa: S608 - quoted names
        f"ON CONFLICT ({keys}) DO {f'UPDATE SET {changed}{wanted}' if changed else 'NOTHING'}"
    )


@lru_cache(1000)
def _delete(table: str, keys: tuple[str, ...], owner: str | None) -> str:
    names = keys if owner is None else (*keys, owner)
    return f"DELETE FROM {table} WHERE {' AND '.join(f'{_quoted(name)} = ?' for name in names)}"  # noqa: S608 - quoted names


_OWN_NAME: Final = text(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = :name COLLATE NOCASE"
    " AND sql NOT LIKE 'CREATE VIRTUAL%'"
)
_COLUMNS: Final = text("SELECT name, type, pk, hidden FROM pragma_table_xinfo(:name)")
_SEES_ORDER: Final = text(
    "SELECT EXISTS (SELECT 1 FROM pragma_index_list(:name) WHERE \"unique\" AND origin <> 'pk')"
    " OR EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = :name COLLATE NOCASE)"
    " OR (SELECT foreign_keys FROM pragma_foreign_keys)"
)
