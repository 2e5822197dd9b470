"""Rows of followed tables, written into tables of the same form."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection, text

from queues.database.copied_table import CopiedTable, CopyRule, RowImage
from queues.errors import ConfigurationError
from queues.sql_names import quoted


class PostgresqlCopiedTables:
    """See `queues.database.dialect.CopiedTableStatements`; PostgreSQL reads the values from the JSON itself."""

    def copied_table(self, connection: Connection, name: str) -> CopiedTable:
        """Read the catalog."""
        found = connection.execute(_TABLE, {"name": name}).first()
        if found is None or found.kind not in ("r", "p"):
            raise ConfigurationError(f"there is no table {name}: create it, or correct the name")
        if found.hides:
            raise ConfigurationError(f"row-level security hides rows of {name}: give the role BYPASSRLS")
        return CopiedTable(
            found.name,
            columns=dict.fromkeys(found.columns, ""),
            generated=frozenset(found.generated),
            required=frozenset(found.required),
            texts=frozenset(found.texts),
            fixed=frozenset([*found.key, *found.always]),
            key=tuple(found.key),
            commutes=found.commutes,
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
        """Insert or update all rows by one statement."""
        statement = _put(table.name, table.key, columns, table.fixed, rule, table.texts)
        return connection.exec_driver_sql(statement, (*_named(rule, source), [row.change for row in rows])).rowcount

    def delete_rows(
        self, connection: Connection, table: CopiedTable, rows: Sequence[RowImage], rule: CopyRule, source: str
    ) -> None:
        """Delete all rows by one statement."""
        statement = _delete(table.name, table.key, rule.source_column)
        connection.exec_driver_sql(statement, ([row.change for row in rows], *_named(rule, source))).close()

    def clear_rows(self, connection: Connection, table: CopiedTable, rule: CopyRule, source: str) -> None:
        """Delete the rows by one statement."""
        connection.exec_driver_sql(_clear(table.name, rule.source_column), _named(rule, source)).close()


def _named(rule: CopyRule, source: str) -> tuple[str, ...]:
    return () if rule.source_column is None else (source,)


def _quoted(name: str) -> str:
    """Return *name* for SQL, without placeholders of psycopg."""
    return quoted(name).replace("%", "%%")


@lru_cache(1000)
def _put(
    table: str,
    key: tuple[str, ...],
    columns: tuple[str, ...],
    fixed: frozenset[str],
    rule: CopyRule,
    texts: frozenset[str],
) -> str:
    # A table may have columns of any name, so each one is qualified.
    place = table.replace("%", "%%")
    names = [_quoted(name) for name in columns]
    values = [f"r.{name}" for name in names]
    wanted = ""
    if rule.source_column is not None:
        own = _quoted(rule.source_column)
        names, values = [own, *names], ["%s", *values]
        wanted = f" WHERE copied.{own} = excluded.{own}"
    if rule.greatest:
        wanted = f" WHERE ({_compared('copied', rule, texts)}) < ({_compared('excluded', rule, texts)})"
    sets = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in columns if name not in fixed)
    return (
        f"INSERT INTO {place} AS copied ({', '.join(names)}) OVERRIDING SYSTEM VALUE "  # noqa: S608 - quoted names
        f"SELECT {', '.join(values)} FROM unnest(%s::text[]) WITH ORDINALITY AS c (change, place), "
        f"json_populate_record(NULL::{place}, c.change::json -> 'row') AS r ORDER BY c.place "
        f"ON CONFLICT ({', '.join(map(_quoted, key))}) DO {f'UPDATE SET {sets}{wanted}' if sets else 'NOTHING'}"
    )


def _compared(row: str, rule: CopyRule, texts: frozenset[str]) -> str:
    # All sites must compare alike, and the collations of their databases may differ.
    order = ' COLLATE "C"'
    return ", ".join(f"{row}.{_quoted(name)}{order if name in texts else ''}" for name in rule.greatest)


@lru_cache(1000)
def _delete(table: str, key: tuple[str, ...], source_column: str | None) -> str:
    place = table.replace("%", "%%")
    same = [f"copied.{_quoted(name)} = d.{_quoted(name)}" for name in key if name != source_column]
    if source_column is not None:
        same.append(f"copied.{_quoted(source_column)} = %s")
    return (
        f"DELETE FROM {place} AS copied USING unnest(%s::text[]) AS c (change), "  # noqa: S608 - quoted names
        f"json_populate_record(NULL::{place}, c.change::json -> 'old') AS d WHERE {' AND '.join(same)}"
    )


@lru_cache(1000)
def _clear(table: str, source_column: str | None) -> str:
    own = "" if source_column is None else f" WHERE {_quoted(source_column)} = %s"
    return f"DELETE FROM {table.replace('%', '%%')}{own}"  # noqa: S608 - quoted names


# Partitions may have triggers and unique columns of their own, so a partitioned table keeps the order.
_TABLE: Final = text("""
SELECT format('%I.%I', n.nspname, c.relname) AS name, c.relkind AS kind, row_security_active(c.oid) AS hides,
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attgenerated = '' ORDER BY a.attnum) AS columns,
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attgenerated <> '') AS generated,
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attnotnull) AS required,
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attcollation <> 0) AS texts,
  ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped
    AND a.attidentity = 'a') AS always,
  ARRAY(SELECT a.attname::text FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attnum = k.number WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate
    AND a.attrelid = c.oid AND k.place <= i.indnkeyatts ORDER BY k.place) AS key,
  c.relkind = 'r' AND NOT EXISTS (SELECT FROM pg_index i
      WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion) AND NOT i.indisprimary)
    AND NOT EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND c.oid IN (f.conrelid, f.confrelid))
    AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal) AS commutes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(:name)
""")
