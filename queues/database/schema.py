"""Check whether a database is ready: its site, its schema and missing parts. Changes nothing."""

from typing import Final, NamedTuple

from sqlalchemy import Column, Connection, Engine, MetaData, Table, Text, func, inspect, select
from sqlalchemy.engine.interfaces import ReflectedColumn

from queues.database import dialects, tables
from queues.database.schemas import schema_of
from queues.database.transactions import mapped_errors, reading
from queues.errors import ConfigurationError, NotInitializedError, SchemaMismatchError, WrongSiteError
from queues.names import SiteId

#: The schema that this software needs: the newest revision in `alembic/versions`.
SCHEMA: Final = "0033"
#: The schema of the oldest lrq that can use these tables.
OLDEST_SCHEMA: Final = "0027"
#: Not `alembic_version`, which belongs to the application if it uses Alembic too.
VERSION_TABLE: Final = "lrq_alembic_version"

#: Alembic's table with the schema of the tables; one row.
version_table: Final = Table(VERSION_TABLE, MetaData(), Column("version_num", Text))


class SiteInfo(NamedTuple):
    """The site of a database, and the current branch of its log."""

    site_id: SiteId
    branch: str


def require(bind: Engine | Connection, *, site_id: str | None = None) -> SiteInfo:
    """Return the site of a database that is ready for use.

    Raises `NotInitializedError`, `SchemaMismatchError`, or, if *site_id* is given, `WrongSiteError`. Raises
    `ConfigurationError` for a role that may not use the schema. Each names the remedy.
    """
    if isinstance(bind, Engine):
        with reading(bind) as connection:
            return require(connection, site_id=site_id)
    require_visible(bind)
    with mapped_errors(bind.engine):
        found = version(bind)
        if found is None:
            refuse_without_rows(bind)
            raise NotInitializedError("the database has no lrq tables: run `lrq init`")
        refuse_newer(bind, found)
        if found < SCHEMA:
            raise SchemaMismatchError(f"the tables have schema {found}, this lrq needs {SCHEMA}: run `lrq init`")
        return site(bind, site_id)


def require_visible(connection: Connection) -> None:
    """Raise `NotInitializedError` if the tables stand in a schema outside the search path of *connection*.

    Raises `ConfigurationError` if the URL names that schema, and the role has no right to use it.
    """
    dialect = dialects.find(connection)
    hidden = None if dialect is None else dialect.hidden_in(connection)
    if hidden is not None and hidden == schema_of(connection.engine.url):
        raise ConfigurationError(
            f"lrq's tables are in schema {hidden!r}, which the database role may not use: "
            "run `lrq grant` as the tables' owner"
        )
    if hidden is not None:
        raise NotInitializedError(
            f"lrq's tables are in schema {hidden!r}, which this connection does not see: set `schema`, or make the "
            f"engine with queues.create_engine(url, schema={hidden!r}), or run `lrq grant` with --search-path"
        )


def check(engine: Engine, *, site_id: str | None = None) -> SiteInfo:
    """Like `require`, but also compare all tables and columns with the expected schema.

    Raises the errors of `require`, and `SchemaMismatchError` with the names of missing parts.
    """
    with reading(engine) as connection:
        found = require(connection, site_id=site_id)
        missing = _missing(connection)
    if missing:
        raise SchemaMismatchError(
            f"the database lacks {', '.join(missing)}: restore it, or begin with an empty database and `lrq init`"
        )
    return found


def version(connection: Connection) -> str | None:
    """Return the schema of the tables; None if no migration was finished. The version table must exist."""
    return connection.execute(select(func.max(version_table.c.version_num))).scalar()


def refuse_newer(connection: Connection, found: str | None) -> None:
    """Raise `SchemaMismatchError` if this software is too old for schema *found*.

    Newer tables still fit if the database says so, because a migration first only adds. See docs/compatibility.md.
    """
    if found is None or found <= SCHEMA:
        return
    oldest = connection.execute(select(tables.site.site.c.oldest_schema)).scalar()
    if oldest is None or oldest > SCHEMA:
        raise SchemaMismatchError(f"the tables have schema {found}, newer than this lrq's {SCHEMA}: upgrade lrq")


def refuse_without_rows(connection: Connection) -> None:
    """Raise `SchemaMismatchError` if tables of lrq are there, whose version is not known: a dump may leave out rows."""
    if inspect(connection).has_table(tables.site.site.name):
        raise SchemaMismatchError(
            f"lrq's tables have no version, as after a dump without rows: put '{SCHEMA}' into {VERSION_TABLE} if the "
            "dumped database had this schema, then run `lrq init`"
        )


def refuse_unknown(found: str | None) -> None:
    """Raise `SchemaMismatchError` if only a newer software can undo the migration to schema *found*."""
    if found is not None and found > SCHEMA:
        raise SchemaMismatchError(
            f"the tables have schema {found}, which this lrq of {SCHEMA} cannot undo: use the lrq that made them"
        )


def site(connection: Connection, wanted: str | None) -> SiteInfo:
    """Return the site of the tables; raise `WrongSiteError` if *wanted* is another site."""
    row = connection.execute(select(tables.site.site.c.site_id, tables.site.site.c.branch)).first()
    if row is None:
        raise NotInitializedError("the tables are there, but they belong to no site yet: run `lrq init`")
    if wanted is not None and row.site_id != wanted:
        raise WrongSiteError(
            f"the database belongs to site {row.site_id!r}, not to {wanted!r}: correct the site id or the database URL"
        )
    return SiteInfo(SiteId(row.site_id), row.branch)


def untriggered(connection: Connection) -> list[str]:
    """Name the tables on which the ordering trigger does not always fire; none on SQLite, which has no trigger.

    `DISABLE TRIGGER ALL` disables the trigger. `ENABLE TRIGGER ALL` does not restore its mode ALWAYS.
    """
    return dialects.of(connection).untriggered(connection)


def unlogged(connection: Connection) -> list[str]:
    """Name the tables that a crash of PostgreSQL empties, and the sequences that a crash sets back."""
    return dialects.of(connection).unlogged(connection)


def hiding(connection: Connection) -> list[str]:
    """Name the tables from whose rows PostgreSQL keeps the role of *connection* (row level security)."""
    return dialects.of(connection).hiding(connection)


def altering(connection: Connection) -> list[str]:
    """Name the tables of lrq whose rows a trigger, rule or view of others may change in silence."""
    return dialects.of(connection).altering(connection)


def refusing(connection: Connection) -> list[str]:
    """Name the columns of others that refuse each row of lrq, because a row must have a value there."""
    inspector = inspect(connection)
    found: list[str] = []
    for table in (*tables.metadata.sorted_tables, *dialects.of(connection).own_tables.sorted_tables):
        there = inspector.get_columns(table.name) if inspector.has_table(table.name) else []
        found += [
            f"{table.name}.{column['name']}" for column in there if column["name"] not in table.c and _needs(column)
        ]
    return found


def _needs(column: ReflectedColumn) -> bool:
    """Return whether an INSERT that does not name *column* fails."""
    is_filled = column.get("default") is not None or "identity" in column or "computed" in column
    return not column["nullable"] and not is_filled


def _missing(connection: Connection) -> list[str]:
    """Name the missing tables, views and columns, and the missing parts of the dialect."""
    dialect = dialects.of(connection)
    inspector = inspect(connection)
    missing: list[str] = []
    views = tables.views_metadata.sorted_tables
    for table in (*tables.metadata.sorted_tables, *dialect.own_tables.sorted_tables, *views):
        if not inspector.has_table(table.name):
            missing.append(f"{'view' if table in views else 'table'} {table.name}")
            continue
        there = {column["name"] for column in inspector.get_columns(table.name)}
        missing += [f"column {table.name}.{column.name}" for column in table.columns if column.name not in there]
    return missing + dialect.lacks(connection)
