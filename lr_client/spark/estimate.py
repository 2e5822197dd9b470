"""About how many rows a table has, from what the database knows anyway."""

from sqlalchemy import ColumnElement, Connection, exc, literal_column, select, table, text

_POSTGRESQL = text(
    "SELECT CASE WHEN c.reltuples >= 0 AND c.relpages > 0 "
    # The density at the last ANALYZE, times the size it has now.
    "THEN c.reltuples / c.relpages * pg_relation_size(c.oid) / current_setting('block_size')::int ELSE 0 END "
    "FROM pg_class c WHERE c.oid = to_regclass(:name)"
)


def about(connection: Connection, name: str) -> int:
    """Return about how many rows the table *name* (or `schema.name`) has; 0 when the database does not know."""
    schema, _, plain = name.rpartition(".")
    found = table(plain, schema=schema or None)
    if connection.dialect.name == "postgresql":
        quoted = connection.dialect.identifier_preparer.format_table(found)
        return int(connection.execute(_POSTGRESQL, {"name": quoted}).scalar() or 0)
    row_id: ColumnElement[int] = literal_column("rowid")
    try:
        # Ids are dense in most tables, and the last one is one look-up.
        last = connection.execute(select(row_id).select_from(found).order_by(row_id.desc()).limit(1)).scalar()
    except exc.OperationalError:  # a view, or WITHOUT ROWID
        return 0
    return max(0, int(last or 0))
