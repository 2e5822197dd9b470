"""Read the application's tables at one state of PostgreSQL: an exported snapshot, in ranges of blocks."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, Table, TableClause, TextClause, text

from queues.database.cuts_port import PinnedState, StoredTable
from queues.errors import SnapshotFailedError
from queues.positions import PgSnapshot, Visibility

_READ_AT_ONE_STATE: Final[Mapping[str, object]] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
# A policy would leave rows out in silence, and the sink would replace all of its rows by the others.
_REFUSE_A_PART: Final = "SET LOCAL row_security = off"
_EXPORT: Final = text("SELECT pg_export_snapshot(), pg_current_snapshot()::text")


class PostgresqlCuts:
    """See `queues.database.cuts_port.Cuts`."""

    @contextmanager
    def pin_cut(
        self,
        engine: Engine,
        *,
        folder: Path | None,  # noqa: ARG002 - nothing is copied
        check: Callable[[], None],  # noqa: ARG002
    ) -> Iterator[PinnedState]:
        """Export the snapshot of a transaction, which stays open until the block ends."""
        with engine.connect().execution_options(**_READ_AT_ONE_STATE) as connection:
            connection.detach()  # so that the pool can open another connection
            with connection.begin():
                _take_time(connection)
                connection.exec_driver_sql(_REFUSE_A_PART)
                name, window = connection.execute(_EXPORT).one()
                yield PinnedState(name, Visibility(window=PgSnapshot.parse(window)), connection)

    @contextmanager
    def read_at(self, engine: Engine, name: str) -> Iterator[Connection]:
        """Import the exported snapshot."""
        if not re.fullmatch(r"[0-9A-Fa-f-]+", name):
            raise LookupError(name)
        with engine.connect().execution_options(**_READ_AT_ONE_STATE) as connection, connection.begin() as reading:
            connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{name}'")
            _take_time(connection)
            connection.exec_driver_sql(_REFUSE_A_PART)
            yield connection
            if reading.is_active:
                self.require_unchanged(connection)

    def require_unchanged(self, connection: Connection) -> None:
        """Compare the tables that this transaction has read with the state of the cut.

        The transaction's locks prevent changes from its first statement on each table, but not before.
        """
        changed = connection.execute(_CHANGED).scalar()
        if changed is not None:
            raise _replaced(changed)
        divided = connection.execute(_DIVIDED_ANEW).scalar()
        if divided is not None:
            raise _divided(divided)

    def hold(self, connection: Connection, table: str) -> None:
        """Read no row: LOCK TABLE knows no materialized views, no foreign tables and no rights to single columns."""
        quote = connection.dialect.identifier_preparer.quote
        connection.exec_driver_sql(f"SELECT FROM {'.'.join(map(quote, table.split('.')))} LIMIT 0")

    def estimate_rows(self, connection: Connection, table: TableClause) -> int:
        """Multiply the rows per block at the last ANALYZE by the present number of blocks, in each stored table."""
        quoted = connection.dialect.identifier_preparer.format_table(table)
        return int(connection.execute(_ROWS, {"name": quoted}).scalar() or 0)

    def stored_tables(self, connection: Connection, table: Table) -> list[StoredTable]:
        """Return the partitions, or the table and all that inherit from it, with their blocks.

        The tables are those of the state, so a partition that comes or goes later changes nothing. A role may have
        rights to the partitioned table only, or policies may apply. Then the rows are read by its name, in one range.
        A view has no places, and a foreign table none that hold still. `ctid` needs the right to the whole table.
        """
        name = connection.dialect.identifier_preparer.format_table(table)
        found = connection.execute(_STORED, {"name": name}).all()
        if not found:
            raise _replaced(name)
        if any(each.is_gone for each in found):
            raise _divided(name)
        asked_for, *below = found
        storing = [each for each in found if each.relkind in _STORING]
        if asked_for.relkind == "p":
            is_one_range = not all(each.may_read for each in (asked_for, *storing))
        else:
            is_one_range = bool(below) and asked_for.has_chunks
        if is_one_range or not storing:
            return [StoredTable(table.name, table.schema, None)]
        return [
            StoredTable(each.name, each.schema, (0, each.blocks) if each.has_places else None, not each.has_chunks)
            for each in storing
        ]

    def between(self, low: int | None, high: int | None) -> list[TextClause]:
        """Compare `ctid` with blocks."""
        bounds = (("ctid >= CAST(:low AS tid)", "low", low), ("ctid < CAST(:high AS tid)", "high", high))
        return [text(sql).bindparams(**{name: f"({block},0)"}) for sql, name, block in bounds if block is not None]


def _replaced(table: str) -> SnapshotFailedError:
    return SnapshotFailedError(
        f"the table {table} was emptied, rewritten or replaced after the cut, so its rows at the cut are gone: "
        "the next attempt reads it at a later cut"
    )


def _divided(table: str) -> SnapshotFailedError:
    return SnapshotFailedError(
        f"the table {table} got or lost a partition with rows after the cut: the next attempt reads it at a later cut"
    )


def _take_time(connection: Connection) -> None:
    """Lift the limits of this transaction's duration: a provider may take minutes between two pages of rows."""
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    if (connection.dialect.server_version_info or ()) >= (17,):
        connection.exec_driver_sql("SET LOCAL transaction_timeout = 0")


# TRUNCATE, a rewriting ALTER TABLE and a replaced table show even to readers of an older state. `pg_class` has the file
# of each table at that state, and the functions tell the present one. System tables have ids below 16384.
_CHANGED: Final = text(
    "WITH old AS NOT MATERIALIZED ("
    "  SELECT c.oid, c.relfilenode, quote_ident(n.nspname) AS space, quote_ident(c.relname) AS name"
    "  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace)"
    " SELECT new.identity FROM pg_locks l"
    " CROSS JOIN LATERAL pg_identify_object('pg_class'::regclass, l.relation, 0) AS new(kind, space, name, identity)"
    " LEFT JOIN old ON old.oid = l.relation"
    " WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.relation::bigint >= 16384"
    " AND new.kind IN ('table', 'materialized view')"
    " AND CASE WHEN old.oid IS NOT NULL THEN (old.space, old.name) <> (new.space, new.name)"
    "  OR (old.relfilenode <> 0 AND old.relfilenode <> pg_relation_filenode(old.oid))"
    " ELSE EXISTS (SELECT FROM old former WHERE former.space = new.space AND former.name = new.name) END LIMIT 1"
)
# The present partitions show even to readers of an older state. `pg_inherits` has the partitions at that state, and
# `pg_partition_tree` those of now. A partition that was created after the cut has no row that such a reader sees.
# A partition whose detachment had begun before the cut is none to such a reader. `pg_inherits` has it until the end.
_DIVIDED_ANEW: Final = text(
    "SELECT (pg_identify_object('pg_class'::regclass, c.oid, 0)).identity"
    " FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
    " WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND c.relhassubclass AND CASE c.relkind"
    " WHEN 'p' THEN EXISTS ("
    "  (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = c.oid AND NOT i.inhdetachpending"
    "   EXCEPT SELECT t.relid FROM pg_partition_tree(c.oid) t WHERE t.parentrelid = c.oid)"
    "  UNION ALL"
    "  (SELECT t.relid FROM pg_partition_tree(c.oid) t JOIN pg_class n ON n.oid = t.relid WHERE t.parentrelid = c.oid"
    "   EXCEPT SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = c.oid AND NOT i.inhdetachpending))"
    # A table that inherits without partitions tells nothing of its present children, except that one is gone.
    " WHEN 'r' THEN EXISTS ("
    "  SELECT FROM pg_inherits i WHERE i.inhparent = c.oid AND pg_table_is_visible(i.inhrelid) IS NULL)"
    " ELSE FALSE END LIMIT 1"
)
#: Kinds of tables with rows of their own: tables, materialized views and foreign tables.
_STORING: Final = frozenset("rmf")
# Of the table asked for and all below it, at the state of the reader. Only its own session can read a temporary table.
# Chunks of TimescaleDB inherit, but rows of theirs may be elsewhere. A reader finds all by the name of the whole table.
_TREE: Final = (
    "WITH RECURSIVE tree(oid) AS (SELECT CAST(to_regclass(:name) AS oid)"
    " UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.oid WHERE NOT i.inhdetachpending)"
)
_ROWS: Final = text(
    f"{_TREE} SELECT sum(CASE WHEN c.reltuples >= 0 AND c.relpages > 0 "  # noqa: S608 - constants
    "THEN c.reltuples / c.relpages * pg_relation_size(c.oid) / current_setting('block_size')::int ELSE 0 END) "
    "FROM tree JOIN pg_class c ON c.oid = tree.oid"
)
_STORED: Final = text(
    f"{_TREE} SELECT c.relname AS name, n.nspname AS schema, c.relkind,"  # noqa: S608 - constants
    " pg_table_is_visible(c.oid) IS NULL AS is_gone,"
    " coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::int AS blocks,"
    " c.relkind IN ('r', 'm') AND has_table_privilege(c.oid, 'SELECT') AS has_places,"
    " has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(c.relnamespace, 'USAGE')"
    "  AND NOT row_security_active(c.oid) AS may_read,"
    " EXISTS (SELECT FROM pg_extension WHERE extname = 'timescaledb') AS has_chunks"
    " FROM tree JOIN pg_class c ON c.oid = tree.oid JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relpersistence <> 't' ORDER BY c.oid <> to_regclass(:name), c.oid"
)
