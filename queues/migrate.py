"""A site's tables: made, migrated, and printed as SQL for those who apply it themselves.

Only migrating imports Alembic, so that applications whose tables are there do not pay for it.
"""

import io
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine, func, insert, inspect, select, text
from sqlalchemy.pool import PoolProxiedConnection

from queues import dialects, schema, tables
from queues.engine import use_wal
from queues.errors import ConfigurationError, NotInitializedError, SchemaMismatchError
from queues.names import SiteId
from queues.names import site_id as checked_site_id
from queues.schema import SiteInfo, check, require
from queues.transactions import mapped_errors

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["DIALECTS", "SiteInfo", "check", "config", "ddl", "incarnation", "initialize", "require"]

#: The databases that the tables are made for.
DIALECTS: Final = ("postgresql", "sqlite")

_PACKAGED: Final = Path(__file__).parent / "_migrations"
_CHECKOUT: Final = Path(__file__).parent.parent / "alembic"
_OLDEST_POSTGRESQL: Final = (14,)
# "lrq" in ASCII; any fixed number that other software is unlikely to use.
_ADVISORY_LOCK: Final = 0x6C7271
# Alembic works through module-level proxies, so one migration at a time in a process.
_one_at_a_time = threading.Lock()


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
        if inspect(connection).has_table(schema.VERSION_TABLE):
            schema.refuse_newer(schema.version(connection))
        with _one_at_a_time:
            _upgrade(connection)
        if connection.execute(select(tables.site.c.site_id)).first() is None:
            _establish(connection, wanted)
        return schema.site(connection, wanted)


def ddl(dialect_name: str) -> str:
    """Return the SQL that `initialize` would run on an empty database of *dialect_name*, for a DBA to apply.

    Afterwards `initialize` needs no more than the right to insert.
    """
    from alembic import command

    if dialect_name not in DIALECTS:
        raise ConfigurationError(f"lrq has no tables for {dialect_name!r}: choose one of {', '.join(DIALECTS)}")
    scripts = config()
    scripts.output_buffer = io.StringIO()
    scripts.attributes["dialect_name"] = dialect_name
    with _one_at_a_time:
        command.upgrade(scripts, "head", sql=True)
    wal = "PRAGMA journal_mode = WAL;\n\n" if dialect_name == "sqlite" else ""
    return wal + scripts.output_buffer.getvalue()


def config() -> "Config":
    """Return the Alembic configuration of the migrations, those of the checkout or those that came with the wheel."""
    from alembic.config import Config

    found = Config()
    scripts = _PACKAGED if _PACKAGED.exists() else _CHECKOUT
    found.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return found


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
        use_wal(cursor)


def _in_transaction(connection: PoolProxiedConnection) -> bool:
    return bool(getattr(connection.dbapi_connection, "in_transaction", False))


def _upgrade(connection: Connection) -> None:
    from alembic import command

    scripts = config()
    scripts.attributes["connection"] = connection
    command.upgrade(scripts, "head")


def _establish(connection: Connection, site_id: SiteId) -> None:
    """Write the rows that a new site begins with."""
    branch = uuid.uuid4().hex
    now = dialects.of(connection).now_us(connection)
    origin = {"number": 1, "branch": branch, "start_seq": 0, "incarnation": incarnation(connection), "created_us": now}
    connection.execute(insert(tables.branches).values(origin))
    head = {"one": 1, "slot": 0, "last_id": 0, "segment": 0, "opened_us": now, "trimmed_seq": 0}
    connection.execute(insert(tables.log_head).values(head))
    connection.execute(insert(tables.site).values(one=1, site_id=site_id, branch=branch, created_us=now))
