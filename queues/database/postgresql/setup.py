"""Engines and tables on PostgreSQL."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

from sqlalchemy import URL, Connection, Engine, MetaData, event, func, select, text
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.pool import ConnectionPoolEntry

from queues.database import tables
from queues.database.borrowed import engine_over
from queues.database.grantees import Grantee
from queues.database.postgresql import rights, standing_tables
from queues.database.schemas import schema_of, take_out
from queues.errors import ConfigurationError
from queues.sql_names import quoted

_OLDEST: Final = (14,)
#: The encoding of a database without one.
_NO_TEXT: Final = "SQL_ASCII"
# "lrq" in ASCII; any fixed number that other software is unlikely to use.
_ADVISORY_LOCK: Final = 0x6C7271
#: The longest time that a migration holds up the transactions of applications behind a lock.
_LOCK_TIMEOUT: Final = "2s"


class PostgresqlSetup:
    """See `queues.database.setup_port.Setup`."""

    own_tables: Final[MetaData] = tables.postgresql_metadata
    has_schemas: Final = True

    def preamble(self, schema: str | None) -> str:
        """Create *schema*, and let the following names be its names."""
        if schema is None:
            return ""
        return f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};\n\nSET search_path = {quoted(schema)};\n\n"

    def postamble(self, schema: str | None) -> str:
        """Drop *schema* unless something else stands in it."""
        if schema is None:
            return ""
        drop = "EXCEPTION WHEN dependent_objects_still_exist THEN NULL; END $drop$;\n\nRESET search_path;\n"
        return f"\nDO $drop$ BEGIN DROP SCHEMA {quoted(schema)}; {drop}"

    def prepare(self, engine: Engine) -> None:
        """Put the schema of the engine's URL at the end of each search path, where it hides no application's name.

        Raise `ConfigurationError` at a connection that gives bytes in place of text.
        """
        # First: SQLAlchemy itself fails at such bytes.
        event.listen(engine, "connect", _require_text, insert=True)
        event.listen(engine, "handle_error", _close_lost_cursor)
        schema = schema_of(engine.url)
        if schema is None:
            return
        path = quoted(schema)

        @event.listens_for(engine, "do_connect")
        def _connect(_dialect: object, _entry: object, _given: object, arguments: dict[str, Any]) -> None:
            take_out(arguments)

        @event.listens_for(engine, "connect")
        def _extend_path(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
            cursor = connection.cursor()
            cursor.execute(_EXTEND_PATH, {"path": path})
            cursor.close()
            connection.commit()

    def connect_within(self, url: URL, seconds: int) -> Mapping[str, object]:
        """Limit the time with libpq's `connect_timeout`."""
        return {} if "connect_timeout" in url.query else {"connect_timeout": seconds}

    def connect_as(self, url: URL, name: str) -> Mapping[str, object]:
        """Set `application_name`."""
        return {} if "application_name" in url.query else {"application_name": name}

    @contextmanager
    def exclusive(self, engine: Engine, schema: str | None = None) -> Iterator[Connection]:
        """Hold an advisory lock."""
        # With one snapshot, the transaction would not see tables created by the previous holder of the lock.
        made = engine.connect().execution_options(isolation_level="READ COMMITTED")
        with made as connection, connection.begin(), self.migrating(connection, schema):
            yield connection

    @contextmanager
    def migrating(self, connection: Connection, schema: str | None = None) -> Iterator[None]:
        """Hold an advisory lock, and act as the owner of the tables; later statements have the earlier settings."""
        if (connection.dialect.server_version_info or ()) < _OLDEST:
            raise ConfigurationError("lrq needs PostgreSQL 14 or later: upgrade the server or use another database")
        connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        # Behind a migration that waits for a table, all later transactions wait for the table too.
        wanted = {"lock_timeout": _LOCK_TIMEOUT}
        if schema is not None:
            _create(connection, schema)
            wanted["search_path"] = quoted(schema)
        before = _replace(connection, wanted)
        # Second, because the first settings may name the schema of the tables. The value from before both is kept.
        before = _replace(connection, standing_tables.settings_for(connection)) | before
        if connection.execute(select(func.current_schema())).scalar() is None:
            raise ConfigurationError(
                "the search_path of this role names no schema that exists, so the tables of lrq have no place: name a "
                "schema there, or by the setting `schema`"
            )
        yield
        # After an error the transaction takes no statement, and its rollback restores the settings.
        _set(connection, before)

    def drop_schema(self, connection: Connection, schema: str) -> None:
        """Look into the catalog first, because an error would end the application's transaction."""
        if connection.execute(_DROPPABLE, {"schema": schema}).first() is not None:
            connection.exec_driver_sql(f"DROP SCHEMA {quoted(schema).replace('%', '%%')}")

    def grants(self, role: str, part: Grantee, schema: str | None, *, search_path: bool) -> list[str]:
        """Quote the names, so that a role may have any name."""
        return rights.statements(role, part, schema, search_path=search_path)

    def own_schema(self, connection: Connection) -> str:
        """Look the site's table up by the search path."""
        return connection.execute(_OWN_SCHEMA).scalar() or ""

    def owner(self, connection: Connection) -> str | None:
        """Ask for the owner of the site's table."""
        return connection.execute(_OWNER).scalar()

    def has_role(self, connection: Connection, role: str) -> bool:
        """Look into the catalog."""
        return connection.execute(_ROLE, {"role": role}).first() is not None

    def hidden_in(self, connection: Connection) -> str | None:
        """Look for the site's table in all schemas."""
        return connection.execute(_HIDDEN).scalar()

    def borrow(self, driver: object) -> Engine:
        """Accept only psycopg's synchronous connections."""
        if not isinstance(driver, _driver_connection()):
            raise ConfigurationError(
                f"lrq works with psycopg 3, not with a connection of {type(driver).__module__.partition('.')[0]}: "
                "pip install 'psycopg[binary]'"
            )
        # Looking for hstore, SQLAlchemy would need the driver's own object.
        return engine_over("postgresql+psycopg://", driver, use_native_hstore=False)

    def lacks(self, connection: Connection) -> list[str]:
        """Name the segments without the trigger that numbers commits, and its helper table."""
        without = self.untriggered(connection)
        return [f"the enabled trigger lrq_sequence_commit, firing ALWAYS, on {', '.join(without)}"] if without else []

    def untriggered(self, connection: Connection) -> list[str]:
        """Compare the segments with those whose trigger fires ALWAYS; the helper table is the last one."""
        firing = set(connection.execute(_ALWAYS_FIRING).scalars())
        helper = connection.execute(_SILENT_HELPER).scalars()
        return [*sorted(set(connection.execute(_SEGMENTS).scalars()) - firing), *helper]

    def unlogged(self, connection: Connection) -> list[str]:
        """Look for tables and sequences after `SET UNLOGGED`."""
        return list(connection.execute(_UNLOGGED).scalars())

    def hiding(self, connection: Connection) -> list[str]:
        """Look for tables whose row level security applies to the role."""
        return list(connection.execute(_HIDING).scalars())

    def altering(self, connection: Connection) -> list[str]:
        """Look for rules, for triggers that fire before a row is written, and for tables that are none any more."""
        return list(connection.execute(_ALTERING, {"names": tables.names(self.own_tables)}).scalars())

    def incarnation(self, connection: Connection) -> str:
        """Return the system identifier, the timeline and the number of the database."""
        identity = "0/0"
        if connection.execute(_MAY_READ_CONTROL).scalar_one():
            identity = connection.execute(_CONTROL).scalar_one()
        return f"{identity}/{connection.execute(_DATABASE).scalar_one()}"


def _require_text(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    """Refuse the encoding in which PostgreSQL knows no characters; the driver then returns bytes for each text."""
    if cast("Any", connection).info.parameter_status("client_encoding") == _NO_TEXT:
        connection.close()
        raise ConfigurationError(
            f"the database has the encoding {_NO_TEXT}, in which texts have no characters: "
            "create it with ENCODING 'UTF8', or unset PGCLIENTENCODING"
        )


def _close_lost_cursor(failed: ExceptionContext) -> None:
    """Close the cursor of a lost connection, which SQLAlchemy leaves open; the driver warns of an open one."""
    if failed.is_disconnect and failed.execution_context is not None:
        failed.execution_context.cursor.close()


def _create(connection: Connection, schema: str) -> None:
    # Where the schema exists, CREATE SCHEMA would need a right that a migration does not.
    if connection.execute(_EXISTS, {"schema": schema}).first() is None:
        connection.exec_driver_sql(f"CREATE SCHEMA {quoted(schema).replace('%', '%%')}")


def _replace(connection: Connection, settings: Mapping[str, str]) -> dict[str, str]:
    """Change the *settings* until the transaction ends, and return their values before."""
    before = {name: connection.execute(select(func.current_setting(name))).scalar_one() for name in settings}
    _set(connection, settings)
    return before


def _set(connection: Connection, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        connection.execute(select(func.set_config(name, value, True)))


def _driver_connection() -> type:
    try:
        import psycopg
    except ImportError:
        return type(None)
    return psycopg.Connection


_EXTEND_PATH: Final = (
    "SELECT set_config('search_path', concat_ws("
    "', ', nullif(current_setting('search_path'), ''), %(path)s::text), false)"
)
_EXISTS: Final = text("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
_DROPPABLE: Final = text(
    "SELECT 1 FROM pg_namespace n WHERE nspname = :schema AND nspname <> 'public'"
    " AND pg_has_role(nspowner, 'USAGE') AND NOT EXISTS"
    " (SELECT 1 FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass AND refobjid = n.oid)"
)
_OWN_SCHEMA: Final = text(
    "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = to_regclass('lrq_site')"
)
_OWNER: Final = text(
    "SELECT pg_get_userbyid(relowner) FROM pg_class"
    " WHERE oid = to_regclass('lrq_site') AND NOT pg_has_role(relowner, 'USAGE')"
)
_ROLE: Final = text("SELECT 1 FROM pg_roles WHERE rolname = :role")
_HIDDEN: Final = text(
    "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
    " WHERE relname = 'lrq_site' AND relkind = 'r' AND to_regclass('lrq_site') IS NULL ORDER BY nspname LIMIT 1"
)
# A restore may leave triggers disabled; without this trigger, entries have no place in the order of commits.
_ALWAYS_FIRING: Final = text(
    "SELECT tgrelid::regclass::text FROM pg_trigger JOIN pg_inherits ON inhrelid = tgrelid"
    " WHERE tgname = 'lrq_sequence_commit' AND tgenabled = 'A' AND inhparent = to_regclass('lrq_log_entries')"
)
_SEGMENTS: Final = text(
    "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass('lrq_log_entries')"
)
_UNLOGGED: Final = text(
    "SELECT c.relname FROM pg_class c JOIN pg_class s ON s.relnamespace = c.relnamespace"
    r" WHERE s.oid = to_regclass('lrq_site') AND c.relname LIKE 'lrq\_%' AND c.relkind IN ('r', 'p', 'S')"
    " AND c.relpersistence = 'u' ORDER BY c.relname"
)
_HIDING: Final = text(
    "SELECT c.relname FROM pg_class c JOIN pg_class s ON s.relnamespace = c.relnamespace"
    r" WHERE s.oid = to_regclass('lrq_site') AND c.relname LIKE 'lrq\_%' AND c.relkind IN ('r', 'p')"
    " AND c.relrowsecurity AND row_security_active(c.oid) ORDER BY c.relname"
)
# In `tgtype`, 1 stands for a trigger of rows, and 2 for one that fires before. Partitions repeat their parent's.
# A view or a foreign table may hide rows, and a detached partition hides all of its rows.
_ALTERING: Final = text(
    "SELECT c.relname FROM pg_class c JOIN pg_class s ON s.relnamespace = c.relnamespace"
    r" WHERE s.oid = to_regclass('lrq_site') AND c.relname LIKE 'lrq\_%' AND c.relkind IN ('r', 'p') AND ("
    " EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal AND tgparentid = 0"
    " AND tgenabled IN ('O', 'A') AND tgtype & 3 = 3)"
    " OR EXISTS (SELECT 1 FROM pg_rewrite WHERE ev_class = c.oid AND ev_enabled IN ('O', 'A'))"
    r" OR c.relname ~ '^lrq_(log_entries|log_commits|ticks)_\d$' AND NOT c.relispartition)"
    " UNION SELECT relname FROM pg_class WHERE relname = ANY(CAST(:names AS text[])) AND pg_table_is_visible(oid)"
    " AND relkind IN ('v', 'm', 'f') ORDER BY 1"
)
# An earlier version has no such table.
_SILENT_HELPER: Final = text(
    "SELECT c.relname FROM pg_class c WHERE c.oid = to_regclass('lrq_waiting_places') AND NOT EXISTS"
    " (SELECT 1 FROM pg_trigger WHERE tgname = 'lrq_sequence_commit' AND tgenabled = 'A' AND tgrelid = c.oid)"
)
_MAY_READ_CONTROL: Final = text(
    "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
    " AND has_function_privilege('pg_control_checkpoint()', 'EXECUTE')"
)
# After a promotion, the WAL has the new timeline at once; the control file has it only after a checkpoint.
_CONTROL: Final = text(
    "SELECT system_identifier || '/' || CASE WHEN pg_is_in_recovery()"
    " THEN (SELECT lpad(to_hex(timeline_id), 8, '0') FROM pg_control_checkpoint())"
    " ELSE lower(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) END FROM pg_control_system()"
)
_DATABASE: Final = text("SELECT oid FROM pg_database WHERE datname = current_database()")
