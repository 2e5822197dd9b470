"""Create, migrate or remove lrq's tables inside a transaction of the application."""

import uuid
from typing import Final

from sqlalchemy import Connection, insert, inspect, select

from queues.database import scripts, tables
from queues.database.dialect import Dialect
from queues.database.lent_connections import lent
from queues.database.schema import (
    OLDEST_SCHEMA,
    SCHEMA,
    VERSION_TABLE,
    SiteInfo,
    refuse_newer,
    refuse_unknown,
    refuse_without_rows,
    require_visible,
    site,
    version,
    version_table,
)
from queues.database.schemas import in_schema, schema_of
from queues.database.transactions import mapped_errors
from queues.names import SiteId
from queues.names import site_id as checked_site_id

_HEAD: Final = "head"
_BASE: Final = "base"


def upgrade(connection: object, *, site_id: str, revision: str = _HEAD, schema: str | None = None) -> SiteInfo | None:
    """Create or migrate the tables inside the caller's transaction; at the newest schema assign them to *site_id*.

    *connection* is SQLAlchemy's `Connection` or `Session`, or Django's connection. The call never commits and opens no
    connection; a rollback leaves nothing. Several processes may call at once: each waits for the transaction of the one
    before. Returns the site, or None at an older *revision*. For *schema* see `queues.initialize`.

    Raises `UsageError` for another object or an unknown *revision*, and `NotInTransactionError` for a connection in
    autocommit. Raises `NotInitializedError` if the tables stand in a schema that *connection* does not see and *schema*
    is None. Raises `WrongSiteError` if the database belongs to another site, and `SchemaMismatchError` if its tables
    are newer than this software. Raises `ConfigurationError` for a database that lrq does not support. Raises
    `StoreUnavailableError` if other transactions hold the tables: roll back, then try again. Raises `InvalidNameError`
    (a `ValueError`) for a malformed *site_id*.

        def upgrade():                                               # a migration of the application's Alembic
            queues.upgrade(op.get_bind(), site_id="paris")

        await connection.run_sync(queues.upgrade, site_id="paris")   # an AsyncConnection
    """
    wanted = checked_site_id(site_id)
    with lent(connection, "queues.upgrade") as (ours, dialect), mapped_errors():
        target = schema_of(in_schema(ours.engine.url, schema))
        with dialect.migrating(ours, target):
            if target is None:
                # See `queues.database.migrations`.
                require_visible(ours)
            return migrate(ours, dialect, wanted, revision)


def downgrade(connection: object, *, revision: str = _BASE, schema: str | None = None) -> None:
    """Undo the migrations after *revision* inside the caller's transaction; `base` removes everything of lrq.

    All entries, positions and snapshots are lost with the tables. Tables of the application are never touched. The
    *schema* (see `queues.initialize`) is dropped too if nothing else stands in it. Does nothing if there are no tables
    of lrq. Raises the errors of `upgrade`.
    """
    with lent(connection, "queues.downgrade") as (ours, dialect), mapped_errors():
        target = schema_of(in_schema(ours.engine.url, schema))
        with dialect.migrating(ours, target):
            found = _version(ours)
            refuse_unknown(found)
            if found is not None:
                scripts.downgrade(ours, revision)
            if revision == _BASE:
                version_table.drop(ours, checkfirst=True)
        if revision == _BASE and target is not None:
            dialect.drop_schema(ours, target)


def migrate(connection: Connection, dialect: Dialect, wanted: SiteId, revision: str = _HEAD) -> SiteInfo | None:
    """Migrate to *revision*, and assign a new database to *wanted*; the caller holds off all other migrations.

    Returns the site, or None at an older *revision*. Raises `WrongSiteError` and `SchemaMismatchError`.
    """
    found = _version(connection)
    refuse_newer(connection, found)
    if found is not None and _has_site(connection):
        site(connection, wanted)
    # Reading the scripts takes longer than all the rest, and at the newest schema none of them has to run.
    if (found or "") < SCHEMA or (found == SCHEMA and revision != _HEAD):
        scripts.upgrade(connection, revision)
    if (_version(connection) or "") < SCHEMA:
        return None
    if not _has_site(connection):
        _establish(connection, dialect, wanted)
    return site(connection, wanted)


def _version(connection: Connection) -> str | None:
    found = version(connection) if inspect(connection).has_table(VERSION_TABLE) else None
    if found is None:
        refuse_without_rows(connection)
    return found


def _has_site(connection: Connection) -> bool:
    return connection.execute(select(tables.site.site.c.site_id)).first() is not None


def _establish(connection: Connection, dialect: Dialect, site_id: SiteId) -> None:
    """Insert the first rows of a new site."""
    branch = uuid.uuid4().hex
    now, incarnation = dialect.now_us(connection), dialect.incarnation(connection)
    origin = {"number": 1, "branch": branch, "start_seq": 0, "incarnation": incarnation, "created_us": now}
    connection.execute(insert(tables.site.branches).values(origin))
    head = {"one": 1, "slot": 0, "last_id": 0, "segment": 0, "opened_us": now, "trimmed_seq": 0}
    connection.execute(insert(tables.log.log_head).values(head))
    values = {"site_id": site_id, "branch": branch, "created_us": now, "oldest_schema": OLDEST_SCHEMA}
    connection.execute(insert(tables.site.site).values(one=1, **values))
