"""Engines and tables on PostgreSQL."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from sqlalchemy import URL, Connection, Engine, MetaData, func, select, text

from queues.database import tables
from queues.database.borrowed import engine_over
from queues.errors import ConfigurationError

_OLDEST: Final = (14,)
# "lrq" in ASCII; any fixed number that other software is unlikely to use.
_ADVISORY_LOCK: Final = 0x6C7271
#: The longest time that a migration holds up the transactions of applications behind a lock.
_LOCK_TIMEOUT: Final = "2s"


class PostgresqlSetup:
    """See `queues.database.dialect.Setup`."""

    own_tables: Final[MetaData] = tables.postgresql_metadata
    preamble: Final = ""

    def prepare(self, engine: Engine) -> None:
        """Do nothing: the server's settings are right."""

    def connect_within(self, url: URL, seconds: int) -> Mapping[str, object]:
        """Limit the time with libpq's `connect_timeout`."""
        return {} if "connect_timeout" in url.query else {"connect_timeout": seconds}

    @contextmanager
    def exclusive(self, engine: Engine) -> Iterator[Connection]:
        """Hold an advisory lock."""
        # With one snapshot, the transaction would not see tables created by the previous holder of the lock.
        made = engine.connect().execution_options(isolation_level="READ COMMITTED")
        with made as connection, connection.begin(), self.migrating(connection):
            yield connection

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Hold an advisory lock; the lock timeout of the transaction's other statements stays."""
        if (connection.dialect.server_version_info or ()) < _OLDEST:
            raise ConfigurationError("lrq needs PostgreSQL 14 or later: upgrade the server or use another database")
        connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        before = connection.execute(select(func.current_setting("lock_timeout"))).scalar_one()
        # Behind a migration that waits for a table, all later transactions wait for the table too.
        connection.execute(select(func.set_config("lock_timeout", _LOCK_TIMEOUT, True)))
        yield
        # After an error the transaction takes no statement, and its rollback restores the setting.
        connection.execute(select(func.set_config("lock_timeout", before, True)))

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
        if connection.execute(_HELPER_FIRES).first() is None:
            without.append("lrq_waiting_places")
        return [f"the enabled trigger lrq_sequence_commit, firing ALWAYS, on {', '.join(without)}"] if without else []

    def untriggered(self, connection: Connection) -> list[str]:
        """Compare the segments with those whose trigger fires ALWAYS."""
        firing = set(connection.execute(_ALWAYS_FIRING).scalars())
        return sorted(set(connection.execute(_SEGMENTS).scalars()) - firing)

    def incarnation(self, connection: Connection) -> str:
        """Return the system identifier, the timeline and the number of the database."""
        identity = "0/0"
        if connection.execute(_MAY_READ_CONTROL).scalar_one():
            identity = connection.execute(_CONTROL).scalar_one()
        return f"{identity}/{connection.execute(_DATABASE).scalar_one()}"


def _driver_connection() -> type:
    try:
        import psycopg
    except ImportError:
        return type(None)
    return psycopg.Connection


# A restore may leave triggers disabled; without this trigger, entries have no place in the order of commits.
_ALWAYS_FIRING: Final = text(
    "SELECT tgrelid::regclass::text FROM pg_trigger JOIN pg_inherits ON inhrelid = tgrelid"
    " WHERE tgname = 'lrq_sequence_commit' AND tgenabled = 'A' AND inhparent = to_regclass('lrq_log_entries')"
)
_SEGMENTS: Final = text(
    "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass('lrq_log_entries')"
)
_HELPER_FIRES: Final = text(
    "SELECT 1 FROM pg_trigger WHERE tgname = 'lrq_sequence_commit' AND tgenabled = 'A'"
    " AND tgrelid = to_regclass('lrq_waiting_places')"
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
