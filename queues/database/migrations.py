"""Create and migrate a site's tables, or print them as SQL for a DBA.

Alembic is imported only for a migration, so applications with up-to-date tables start without it.
"""

import io
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine, insert, inspect, select

from queues.clock import SYSTEM_CLOCK
from queues.database import dialects, schema, tables
from queues.database.dialect import Dialect
from queues.database.engine_check import require_engine
from queues.database.schema import SiteInfo, check, require
from queues.database.transactions import is_lock_timeout, mapped_errors
from queues.errors import NotInitializedError, SchemaMismatchError, StoreUnavailableError
from queues.names import SiteId
from queues.names import site_id as checked_site_id

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["SiteInfo", "check", "config", "ddl", "initialize", "require"]

_PACKAGED: Final = Path(__file__).parents[1] / "_migrations"
_CHECKOUT: Final = Path(__file__).parents[2] / "alembic"
# Alembic has module-level state, so a process can run only one migration at a time.
_one_at_a_time = threading.Lock()
#: A migration of PostgreSQL waits 2 s for a lock. Between two tries, the transactions behind the migration pass.
_TRIES: Final = 15
_PAUSE_SECONDS: Final = 0.5


def initialize(engine: Engine, *, site_id: str) -> SiteInfo:
    """Create or migrate the tables and assign the database to *site_id*; idempotent, even in several processes at once.

    Raises `UsageError` unless *engine* is an engine. Raises `WrongSiteError` if the database belongs to another site.
    Raises `SchemaMismatchError` if its tables are newer than this software. Raises `ConfigurationError` for a database
    that lrq does not support. Raises `StoreUnavailableError` if the database is locked or unreachable. Raises
    `InvalidNameError` (a `ValueError`) for a malformed *site_id*.

        engine = queues.create_engine("sqlite:///paris.db")
        queues.initialize(engine, site_id="paris")
    """
    require_engine(engine, "initialize")
    wanted = checked_site_id(site_id)
    dialect = dialects.of(engine)
    # Usually the tables are up to date, and no lock is needed.
    with suppress(NotInitializedError, SchemaMismatchError):
        return require(engine, site_id=wanted)
    for _ in range(_TRIES):
        try:
            return _initialize(engine, dialect, wanted)
        except StoreUnavailableError as error:
            if not is_lock_timeout(error):
                raise
        SYSTEM_CLOCK.wait(threading.Event(), _PAUSE_SECONDS)
    raise StoreUnavailableError("other transactions hold the tables: end them, then run `lrq init` again")


def _initialize(engine: Engine, dialect: Dialect, wanted: SiteId) -> SiteInfo:
    with mapped_errors(engine), dialect.exclusive(engine) as connection:
        if inspect(connection).has_table(schema.VERSION_TABLE):
            schema.refuse_newer(connection, schema.version(connection))
        with _one_at_a_time:
            _upgrade(connection)
        if connection.execute(select(tables.site.c.site_id)).first() is None:
            _establish(connection, wanted)
        return schema.site(connection, wanted)


def ddl(dialect_name: str) -> str:
    """Return the SQL by which a DBA creates the tables in an empty database of *dialect_name*.

    Afterwards `initialize` needs only the right to insert.
    """
    from alembic import command

    dialect = dialects.named(dialect_name)
    scripts = config()
    scripts.output_buffer = io.StringIO()
    scripts.attributes["dialect_name"] = dialect_name
    with _one_at_a_time:
        command.upgrade(scripts, "head", sql=True)
    return dialect.preamble + scripts.output_buffer.getvalue()


def config() -> "Config":
    """Return the Alembic configuration of the migrations in the wheel, or in the checkout if there is no wheel."""
    from alembic.config import Config

    found = Config()
    scripts = _PACKAGED if _PACKAGED.exists() else _CHECKOUT
    found.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return found


def _upgrade(connection: Connection) -> None:
    from alembic import command

    scripts = config()
    scripts.attributes["connection"] = connection
    command.upgrade(scripts, "head")


def _establish(connection: Connection, site_id: SiteId) -> None:
    """Insert the first rows of a new site."""
    branch = uuid.uuid4().hex
    dialect = dialects.of(connection)
    now, incarnation = dialect.now_us(connection), dialect.incarnation(connection)
    origin = {"number": 1, "branch": branch, "start_seq": 0, "incarnation": incarnation, "created_us": now}
    connection.execute(insert(tables.branches).values(origin))
    head = {"one": 1, "slot": 0, "last_id": 0, "segment": 0, "opened_us": now, "trimmed_seq": 0}
    connection.execute(insert(tables.log_head).values(head))
    connection.execute(insert(tables.site).values(one=1, site_id=site_id, branch=branch, created_us=now))
