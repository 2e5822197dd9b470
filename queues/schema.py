"""Whether a database is ready: whose it is, which schema it has, and what it lacks. Changes nothing."""

from typing import Final, NamedTuple

from sqlalchemy import Column, Connection, Engine, MetaData, Table, Text, func, inspect, select, text

from queues import tables
from queues.errors import NotInitializedError, SchemaMismatchError, WrongSiteError
from queues.names import SiteId
from queues.transactions import mapped_errors, reading

#: The schema that this software works with: the newest revision in `alembic/versions`.
SCHEMA: Final = "0002"
#: An application that uses Alembic too keeps `alembic_version` for itself.
VERSION_TABLE: Final = "lrq_alembic_version"

_version = Table(VERSION_TABLE, MetaData(), Column("version_num", Text))


class SiteInfo(NamedTuple):
    """Whose database it is, and the branch that its log is numbered in."""

    site_id: SiteId
    branch: str


def require(bind: Engine | Connection, *, site_id: str | None = None) -> SiteInfo:
    """Tell whose database it is, for everything that needs a ready one.

    Raises `NotInitializedError`, `SchemaMismatchError`, or, if *site_id* is given, `WrongSiteError`; each says what
    to run.
    """
    if isinstance(bind, Engine):
        with reading(bind) as connection:
            return require(connection, site_id=site_id)
    with mapped_errors():
        found = version(bind)
        refuse_newer(found)
        if found is None:
            raise NotInitializedError("the database has no lrq tables: run `lrq init`")
        if found < SCHEMA:
            raise SchemaMismatchError(f"the tables have schema {found}, this lrq needs {SCHEMA}: run `lrq init`")
        return site(bind, site_id)


def check(engine: Engine, *, site_id: str | None = None) -> SiteInfo:
    """Do what `require` does, and compare the whole schema with what this software expects.

    Raises `SchemaMismatchError` that names what is missing, besides the errors of `require`.
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
    """Return the schema that the tables have; None where none was finished. The version table must be there."""
    return connection.execute(select(func.max(_version.c.version_num))).scalar()


def refuse_newer(found: str | None) -> None:
    """Raise `SchemaMismatchError` if this software is too old for schema *found*."""
    if found is not None and found > SCHEMA:
        raise SchemaMismatchError(f"the tables have schema {found}, newer than this lrq's {SCHEMA}: upgrade lrq")


def site(connection: Connection, wanted: str | None) -> SiteInfo:
    """Tell whose tables these are; raise `WrongSiteError` unless they are *wanted*'s."""
    row = connection.execute(select(tables.site.c.site_id, tables.site.c.branch)).first()
    if row is None:
        raise NotInitializedError("the tables are there, but they belong to no site yet: run `lrq init`")
    if wanted is not None and row.site_id != wanted:
        raise WrongSiteError(
            f"the database belongs to site {row.site_id!r}, not to {wanted!r}: correct the site id or the database URL"
        )
    return SiteInfo(SiteId(row.site_id), row.branch)


# A restore that switched triggers off and did not switch them on again would end the order of commits.
_TRIGGER = text(
    "SELECT 1 FROM pg_trigger WHERE tgname = 'lrq_sequence_commit'"
    " AND tgrelid = to_regclass('lrq_log_entries') AND tgenabled IN ('O', 'A')"
)


def _missing(connection: Connection) -> list[str]:
    """Name the tables and columns, and on PostgreSQL the trigger, that are not there."""
    on_sqlite = connection.dialect.name == "sqlite"
    own = tables.sqlite_metadata if on_sqlite else tables.postgresql_metadata
    inspector = inspect(connection)
    missing: list[str] = []
    for table in (*tables.metadata.sorted_tables, *own.sorted_tables):
        if not inspector.has_table(table.name):
            missing.append(f"table {table.name}")
            continue
        there = {column["name"] for column in inspector.get_columns(table.name)}
        missing += [f"column {table.name}.{column.name}" for column in table.columns if column.name not in there]
    if not on_sqlite and connection.execute(_TRIGGER).first() is None:
        missing.append("the enabled trigger lrq_sequence_commit on lrq_log_entries")
    return missing
