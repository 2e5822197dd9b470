"""Rows of followed tables, written into tables of the same form."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection, text

from queues.database.copied_table import CopiedTable, Owner, RowImage
from queues.errors import ConfigurationError


class PostgresqlCopiedTables:
    """See `queues.database.dialect.CopiedTableStatements`; PostgreSQL reads the values from the JSON itself."""

    def copied_table(self, connection: Connection, name: str) -> CopiedTable:
        """Read the catalog."""
        found = connection.execute(_TABLE, {"name": name}).first()
        if found is None or found.kind not in ("r", "p"):
            raise ConfigurationError(f"there is no table {name}: create it, or correct the name")
        if found.hides:
            raise ConfigurationError(f"row-level security hides rows of {name}: give the role BYPASSRLS")
        columns = dict.fromkeys(found.columns, "")
        fixed = frozenset([*found.key, *found.always])
        return CopiedTable(found.name, columns, frozenset(found.generated), fixed, tuple(found.key), found.commutes)

    def put_rows(
        self,
        connection: Connection,
        table: CopiedTable,
        columns: tuple[str, ...],
        rows: Sequence[RowImage],
        owner: Owner | None,
    ) -> int:
        """Insert or update all rows by one statement."""
        site = () if owner is None else (owner.site,)
        statement = _put(table.name, table.key, columns, table.fixed, owner and owner.column)
        return connection.exec_driver_sql(statement, (*site, [row.change for row in rows])).rowcount

    def delete_rows(
        self, connection: Connection, table: CopiedTable, rows: Sequence[RowImage], owner: Owner | None
    ) -> None:
        """Delete all rows by one statement."""
        site = () if owner is None else (owner.site,)
        statement = _delete(table.name, table.key, owner and owner.column)
        connection.exec_driver_sql(statement, ([row.change for row in rows], *site)).close()

    def clear_rows(self, connection: Connection, table: CopiedTable, owner: Owner | None) -> None:
        """Delete the rows, all or those of the owner."""
        if owner is None:
            connection.exec_driver_sql(_literal(f"DELETE FROM {table.name}")).close()  # noqa: S608 - quoted names
        else:
            connection.exec_driver_sql(_clear(table.name, owner.column), (owner.site,)).close()


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _literal(sql: str) -> str:
    """Return *sql* without placeholders of psycopg."""
    return sql.replace("%", "%%")


@lru_cache(1000)
def _put(table: str, key: tuple[str, ...], columns: tuple[str, ...], fixed: frozenset[str], owner: str | None) -> str:
    # A table may have columns of any name, so each one is qualified.
    place = _literal(table)
    names = [_literal(_quoted(name)) for name in columns]
    changed = [_literal(_quoted(name)) for name in columns if name not in fixed]
    values = [f"r.{name}" for name in names]
    wanted = ""
    if owner is not None:
        own = _literal(_quoted(owner))
        names, values = [own, *names], ["%s", *values]
        wanted = f" WHERE copied.{own} = excluded.{own}"
    keys = ", ".join(_literal(_quoted(name)) for name in key)
    sets = ", ".join(f"{name} = excluded.{name}" for name in changed)
    return (
        f"INSERT INTO {place} AS copied ({', '.join(names)}) OVERRIDING SYSTEM VALUE "  # noqa: S608 - quoted names
        f"SELECT {', '.join(values)} FROM unnest(%s::text[]) WITH ORDINALITY AS c (change, place), "
        f"json_populate_record(NULL::{place}, c.change::json -> 'row') AS r ORDER BY c.place "
        f"ON CONFLICT ({keys}) DO {f'UPDATE SET {sets}{wanted}' if sets else 'NOTHING'}"
    )


@lru_cache(1000)
def _delete(table: str, key: tuple[str, ...], owner: str | None) -> str:
    place = _literal(table)
    keys = [_literal(_quoted(name)) for name in key if name != owner]
    same = [f"copied.{name} = d.{name}" for name in keys]
    if owner is not None:
        same.append(f"copied.{_literal(_quoted(owner))} = %s")
    return (
        f"DELETE FROM {place} AS copied USING unnest(%s::text[]) AS c (change), "  # noqa: S608 - quoted names
        f"json_populate_record(NULL::{place}, c.change::json -> 'old') AS d WHERE {' AND '.join(same)}"
    )


@lru_cache(1000)
def _clear(table: str, owner: str) -> str:
    return f"DELETE FROM {_literal(table)} WHERE {_literal(_quoted(owner))} = %s"  # noqa: S608 - quoted names


_TABLE: Final = text("""
SELECT format('%I.%I', n.nspname, c.relname) AS name, c.relkind AS kind, row_security_active(c.oid) AS hides,
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attgenerated = '' ORDER BY a.attnum) AS columns,
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attgenerated <> '') AS generated,
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped
    AND a.attidentity = 'a') AS always,
  ARRAY(SELECT a.attname::text FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attnum = k.number WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate
    AND a.attrelid = c.oid AND k.place <= i.indnkeyatts ORDER BY k.place) AS key,
  NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion)
      AND NOT i.indisprimary)
    AND NOT EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND c.oid IN (f.conrelid, f.confrelid))
    AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal) AS commutes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(:name)
""")
