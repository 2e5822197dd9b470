"""A site's tables: made, migrated, checked, and printed as SQL for those who apply it themselves.

Only migrating imports Alembic, so that applications whose tables are there do not pay for it.
"""

import io
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import Column, Connection, Engine, MetaData, Table, Text, func, insert, inspect, select, text
from sqlalchemy.pool import PoolProxiedConnection

from queues import dialects, tables
from queues.errors import ConfigurationError, NotInitializedError, SchemaMismatchError, WrongSiteError
from queues.names import SiteId
from queues.names import site_id as checked_site_id
from queues.transactions import mapped_errors, reading

if TYPE_CHECKING:
    from alembic.config import Config

#: The schema that this software works with: the newest revision in `alembic/versions`.
SCHEMA: Final = "0002"
#: An application that uses Alembic too keeps `alembic_version` for itself.
VERSION_TABLE: Final = "lrq_alembic_version"

#: What the tables exist for.
NAMES: Final = ("postgresql", "sqlite")

_version = Table(VERSION_TABLE, MetaData(), Column("version_num", Text))
_PACKAGED: Final = Path(__file__).parent / "_migrations"
_CHECKOUT: Final = Path(__file__).parent.parent / "alembic"
_OLDEST_POSTGRESQL: Final = (14,)
# "lrq" in ASCII; any fixed number that other software is unlikely to use.
_ADVISORY_LOCK: Final = 0x6C7271
# Alembic works through module-level proxies, so one migration at a time in a process.
_one_at_a_time = threading.Lock()


class SiteInfo(NamedTuple):
    """Whose database it is, and the branch that its log is numbered in."""

    site_id: SiteId
    branch: str


def initialize(engine: Engine, *, site_id: str) -> SiteInfo:
    """Create or migrate the tables and make the database the one of *site_id*; idempotent, also among processes.

    Raises `WrongSiteError` when it is another site's, `SchemaMismatchError` when its tables are newer than this
    software, `ConfigurationError` for a database that lrq does not work with, `StoreUnavailableError` when it is
    locked or gone, and `InvalidNameError` (a `ValueError`) for a malformed *site_id*.

        engine = queues.create_engine("sqlite:///paris.db")
        queues.initialize(engine, site_id="paris")
    """
    wanted = checked_site_id(site_id)
    dialects.of(engine)
    # Most calls find everything in place and need no lock.
    with suppress(NotInitializedError, SchemaMismatchError):
        return require(engine, site_id=wanted)
    with mapped_errors(), _exclusive(engine) as connection:
        _refuse_newer(_found_schema(connection))
        with _one_at_a_time:
            _upgrade(connection)
        if connection.execute(select(tables.site.c.site_id)).first() is None:
            _found(connection, wanted)
        return _site(connection, wanted)


def require(bind: Engine | Connection, *, site_id: str | None = None) -> SiteInfo:
    """Tell whose database it is, for everything that needs a ready one.

    Raises `NotInitializedError`, `SchemaMismatchError`, or, if *site_id* is given, `WrongSiteError`; each says what
    to run.
    """
    if isinstance(bind, Engine):
        with reading(bind) as connection:
            return require(connection, site_id=site_id)
    with mapped_errors():
        found = bind.execute(select(func.max(_version.c.version_num))).scalar()
        _refuse_newer(found)
        if found is None:
            raise NotInitializedError("the database has no lrq tables: run `lrq init`")
        if found < SCHEMA:
            raise SchemaMismatchError(f"the tables have schema {found}, this lrq needs {SCHEMA}: run `lrq init`")
        return _site(bind, site_id)


def check(engine: Engine, *, site_id: str | None = None) -> SiteInfo:
    """Do what `require` does, and compare every table with what this software expects.

    Raises `SchemaMismatchError` that names what is missing, besides the errors of `require`.
    """
    with reading(engine) as connection:
        found = require(connection, site_id=site_id)
        missing = _missing(connection)
    if missing:
        raise SchemaMismatchError(f"the database lacks {', '.join(missing)}: apply `lrq init --sql` to an empty one")
    return found


def ddl(dialect_name: str) -> str:
    """Return the SQL that `initialize` would run on an empty database of *dialect_name*, for a DBA to apply.

    Afterwards `initialize` needs no more than the right to insert.
    """
    from alembic import command

    if dialect_name not in NAMES:
        raise ConfigurationError(f"lrq has no tables for {dialect_name!r}: choose one of {', '.join(NAMES)}")
    config = _config()
    config.output_buffer = io.StringIO()
    config.attributes["dialect_name"] = dialect_name
    with _one_at_a_time:
        command.upgrade(config, "head", sql=True)
    wal = "PRAGMA journal_mode = WAL;\n\n" if dialect_name == "sqlite" else ""
    return wal + config.output_buffer.getvalue()


def incarnation(connection: Connection) -> str:
    """Return what changes when the database is restored, promoted or copied: see `lrq_branches`.

    PostgreSQL: system identifier, timeline and database; SQLite has nothing of the kind, there the headers tell.
    """
    if connection.dialect.name != "postgresql":
        return "file"
    identity = "0/0"
    if connection.execute(_MAY_READ_CONTROL).scalar_one():
        identity = connection.execute(_CONTROL).scalar_one()
    database = connection.execute(text("SELECT oid FROM pg_database WHERE datname = current_database()")).scalar_one()
    return f"{identity}/{database}"


_MAY_READ_CONTROL = text(
    "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
    " AND has_function_privilege('pg_control_checkpoint()', 'EXECUTE')"
)
# The control file learns of a new timeline at the first checkpoint after a promotion, the WAL at once.
_CONTROL = text(
    "SELECT system_identifier || '/' || CASE WHEN pg_is_in_recovery()"
    " THEN (SELECT lpad(to_hex(timeline_id), 8, '0') FROM pg_control_checkpoint())"
    " ELSE lower(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) END FROM pg_control_system()"
)


@contextmanager
def _exclusive(engine: Engine) -> Iterator[Connection]:
    """Open one transaction that no other `initialize` of this database overlaps, whatever engine it is."""
    if engine.dialect.name == "sqlite":
        _use_wal(engine)
        with engine.connect() as connection, connection.begin():
            # However the engine begins its transactions, this one must hold the write lock before it reads.
            if _in_transaction(connection.connection):
                connection.exec_driver_sql("ROLLBACK")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
        return
    # A transaction that keeps its first snapshot would not see what the previous holder of the lock has made.
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as connection, connection.begin():
        if (connection.dialect.server_version_info or ()) < _OLDEST_POSTGRESQL:
            raise ConfigurationError("lrq needs PostgreSQL 14 or later: upgrade the server or use another database")
        connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        yield connection


def _use_wal(engine: Engine) -> None:
    # Not through SQLAlchemy, which would begin a transaction, and in one the mode cannot change.
    with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        if _in_transaction(connection):
            cursor.execute("ROLLBACK")
        cursor.execute("PRAGMA journal_mode = WAL")


def _in_transaction(connection: PoolProxiedConnection) -> bool:
    return bool(getattr(connection.dbapi_connection, "in_transaction", False))


def _found_schema(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(select(func.max(_version.c.version_num))).scalar()


def _refuse_newer(found: str | None) -> None:
    if found is not None and found > SCHEMA:
        raise SchemaMismatchError(f"the tables have schema {found}, newer than this lrq's {SCHEMA}: upgrade lrq")


def _site(connection: Connection, wanted: str | None) -> SiteInfo:
    row = connection.execute(select(tables.site.c.site_id, tables.site.c.branch)).first()
    if row is None:
        raise NotInitializedError("the tables are there, but they belong to no site yet: run `lrq init`")
    if wanted is not None and row.site_id != wanted:
        raise WrongSiteError(
            f"the database belongs to site {row.site_id!r}, not to {wanted!r}: correct the site id or the database URL"
        )
    return SiteInfo(SiteId(row.site_id), row.branch)


def _found(connection: Connection, site_id: SiteId) -> None:
    """Write the rows that a new site begins with."""
    branch = uuid.uuid4().hex
    now = dialects.of(connection).now_us(connection)
    origin = {"number": 1, "branch": branch, "start_seq": 0, "incarnation": incarnation(connection), "created_us": now}
    connection.execute(insert(tables.branches).values(origin))
    head = {"one": 1, "slot": 0, "last_id": 0, "segment": 0, "opened_us": now, "trimmed_seq": 0}
    connection.execute(insert(tables.log_head).values(head))
    connection.execute(insert(tables.site).values(one=1, site_id=site_id, branch=branch, created_us=now))


def _missing(connection: Connection) -> list[str]:
    """Name the tables and columns that are not there."""
    inspector = inspect(connection)
    own = tables.sqlite_metadata if connection.dialect.name == "sqlite" else tables.postgresql_metadata
    missing: list[str] = []
    for table in (*tables.metadata.sorted_tables, *own.sorted_tables):
        if not inspector.has_table(table.name):
            missing.append(f"table {table.name}")
            continue
        there = {column["name"] for column in inspector.get_columns(table.name)}
        missing += [f"column {table.name}.{column.name}" for column in table.columns if column.name not in there]
    return missing


def _upgrade(connection: Connection) -> None:
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _config() -> "Config":
    from alembic.config import Config

    config = Config()
    scripts = _PACKAGED if _PACKAGED.exists() else _CHECKOUT
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return config
