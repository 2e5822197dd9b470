"""Create and migrate a site's tables, or print them as SQL for a DBA.

Alembic is imported only for a migration, so applications with up-to-date tables start without it.
"""

import threading
from contextlib import suppress
from typing import Final

from sqlalchemy import Engine

from queues.clock import SYSTEM_CLOCK
from queues.database import dialects, scripts
from queues.database.dialect import Dialect
from queues.database.engine_check import require_engine
from queues.database.schema import SCHEMA, VERSION_TABLE, SiteInfo, check, require, require_visible, site
from queues.database.schemas import in_schema, schema_of
from queues.database.scripts import config
from queues.database.transactions import is_lock_timeout, mapped_errors
from queues.database.upgrades import migrate
from queues.errors import NotInitializedError, SchemaMismatchError, StoreUnavailableError
from queues.names import SiteId
from queues.names import site_id as checked_site_id

__all__ = ["SiteInfo", "check", "config", "ddl", "initialize", "require"]

#: A migration of PostgreSQL waits 2 s for a lock. Between two tries, the transactions behind the migration pass.
_TRIES: Final = 15
_PAUSE_SECONDS: Final = 0.5


def initialize(engine: Engine, *, site_id: str, schema: str | None = None) -> SiteInfo:
    """Create or migrate the tables and assign the database to *site_id*; idempotent, even in several processes at once.

    On PostgreSQL the tables stand in *schema*: by default that of `queues.create_engine`, otherwise the first of the
    search path. An engine without that schema in its search path does not find the tables.

    Raises `UsageError` unless *engine* is an engine. Raises `WrongSiteError` if the database belongs to another site.
    Raises `NotInitializedError` if the tables stand in a schema that *engine* does not see and *schema* is None.
    Raises `SchemaMismatchError` if its tables are newer than this software. Raises `ConfigurationError` for a database
    that lrq does not support. Raises `StoreUnavailableError` if the database is locked or unreachable. Raises
    `InvalidNameError` (a `ValueError`) for a malformed *site_id*.

        engine = queues.create_engine("sqlite:///paris.db")
        queues.initialize(engine, site_id="paris")
    """
    require_engine(engine, "initialize")
    wanted = checked_site_id(site_id)
    dialect = dialects.of(engine)
    target = schema_of(in_schema(engine.url, schema))
    # Usually the tables are up to date, and no lock is needed.
    if target == schema_of(engine.url):
        with suppress(NotInitializedError, SchemaMismatchError):
            return require(engine, site_id=wanted)
    for _ in range(_TRIES):
        try:
            return _initialize(engine, dialect, wanted, target)
        except StoreUnavailableError as error:
            if not is_lock_timeout(error):
                raise
        SYSTEM_CLOCK.wait(threading.Event(), _PAUSE_SECONDS)
    raise StoreUnavailableError("other transactions hold the tables: end them, then run `lrq init` again")


def _initialize(engine: Engine, dialect: Dialect, wanted: SiteId, target: str | None) -> SiteInfo:
    with mapped_errors(engine), dialect.exclusive(engine, target) as connection:
        if target is None:
            # Tables in the first schema of the path would hide the others from all connections, with their entries.
            require_visible(connection)
        return migrate(connection, dialect, wanted) or site(connection, wanted)


def ddl(dialect_name: str, *, start: str | None = None, transactional: bool = False, schema: str | None = None) -> str:
    """Return the SQL by which a DBA creates the tables in a database of *dialect_name*, or migrates them from *start*.

    The SQL has BEGIN and COMMIT only if *transactional*. Afterwards `initialize` needs only the right to insert. Raises
    `UsageError` for an unknown *start*.
    """
    dialect = dialects.named(dialect_name)
    return dialect.preamble(schema) + scripts.sql(dialect_name, "head", start=start, transactional=transactional)


def removal(dialect_name: str, *, transactional: bool = False, schema: str | None = None) -> str:
    """Return the SQL by which a DBA removes everything of lrq of the newest schema, with an empty *schema*."""
    dialect = dialects.named(dialect_name)
    path = dialect.preamble(schema) if schema else ""
    made = scripts.sql(dialect_name, "base", start=SCHEMA, down=True, transactional=transactional)
    # Older versions of Alembic print a DROP of this table too.
    return f"{path}{made}\nDROP TABLE IF EXISTS {VERSION_TABLE};\n{dialect.postamble(schema)}"
