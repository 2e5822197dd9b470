"""The beginning, the guards and the end of a transaction on PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    TextClause,
    bindparam,
    cast,
    event,
    func,
    text,
    true,
)
from sqlalchemy import select as _select
from sqlalchemy.dialects.postgresql import BIT
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from queues.database.dialect import BRIEF_SECONDS, READING, Statement
from queues.database.postgresql.pipeline import exchange
from queues.database.postgresql.prepared_statements import Request

#: Seconds without a statement after which PostgreSQL ends a brief transaction.
_IDLE_SECONDS: Final = 2
_END_WHEN_IDLE: Final[Request] = (f"SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'", {})


class PostgresqlTransactions:
    """See `queues.database.dialect.Transactions`."""

    one_writer: Final = False
    one_state: Final[Mapping[str, object]] = {"isolation_level": "REPEATABLE READ"}
    durable_commit: Final[Sequence[Statement]] = ((_select(func.set_config("synchronous_commit", "on", true())), {}),)

    def each_state(self, connection: Connection) -> Mapping[str, object]:
        """Return READ COMMITTED unless that is the default. A connection has a level already if its engine sets one."""
        is_chosen = "isolation_level" in connection.get_execution_options()
        is_usual = is_chosen or connection.dialect.default_isolation_level in (None, "READ COMMITTED")
        return {} if is_usual else {"isolation_level": "READ COMMITTED"}

    def begin_write(self, connection: Connection, *, briefly: bool = False) -> None:
        """Take no lock, because writers wait only for rows; limit the idle time of a brief transaction."""
        if briefly:
            # One message begins the transaction too, and so the next statements may share messages.
            exchange(connection, [_end_when_idle(connection)])

    def limit_lock_wait(self, connection: Connection, seconds: int) -> None:
        """Set `lock_timeout` until the transaction ends."""
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{seconds:d}s'")

    def reading_limits(self, statement: int, lock: int) -> Sequence[TextClause]:
        """Return three SET statements."""
        limits = (f"statement_timeout = '{statement:d}s'", f"lock_timeout = '{lock:d}s'")
        return [text("SET TRANSACTION READ ONLY"), *(text(f"SET LOCAL {limit}") for limit in limits)]

    def write_aside(self, connection: Connection) -> None:
        """Count rows that need more memory than `work_mem`, so that a read-only transaction writes them too."""
        for setting in ("work_mem = '64kB'", "temp_tablespaces = ''"):
            connection.exec_driver_sql(f"SET LOCAL {setting}")
        connection.exec_driver_sql("SELECT count(*) FROM generate_series(1, 20000)")

    def hasten_commit(self, connection: Connection) -> bool:
        """Commit asynchronously: a crash of the database may lose the newest of these transactions."""
        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
        return True

    def keep(self, connection: Connection, *tables: str) -> None:
        """Take a shared lock on *tables*, without taking a snapshot."""
        quote = connection.dialect.identifier_preparer.quote
        names = (".".join(quote(part) for part in table.split(".")) for table in tables)
        connection.exec_driver_sql(f"LOCK TABLE {', '.join(names)} IN ACCESS SHARE MODE")

    def commits_alone(self, connection: Connection) -> bool:
        """Return the driver's `autocommit`."""
        driver: Any = connection.connection.dbapi_connection
        return bool(driver.autocommit)

    def presence(self, *, durably: bool) -> Sequence[ColumnElement[Any]]:
        """Mark the transaction with a shared advisory lock."""
        return (_PRESENCE, _DURABLY) if durably else (_PRESENCE,)

    def end_older(self, engine: Engine, name: str, generation: int, idle: float) -> None:
        """Terminate idle backends that hold the advisory lock of another generation."""
        ending = _END_OLDER, {"name": name, "held": generation, "idle": idle}
        # Nothing is written, so one message is enough for the whole transaction.
        with engine.connect().execution_options(**{READING: True}) as connection, connection.begin():
            exchange(connection, [ending], last=True)

    def refuse_hidden_rows(self, engine: Engine) -> None:
        """Set `row_security = off` on each new connection, with which PostgreSQL raises an error and hides no rows."""
        _set_on_connect(engine, "SET row_security = off")

    def end_idle(self, engine: Engine, seconds: float) -> None:
        """Set `idle_in_transaction_session_timeout` on each new connection."""
        _set_on_connect(engine, f"SET idle_in_transaction_session_timeout = {max(int(seconds * 1000), 1)}")


def _set_on_connect(engine: Engine, setting: str) -> None:
    @event.listens_for(engine, "connect")
    def _set(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute(setting)
        cursor.close()
        connection.commit()


def _end_when_idle(connection: Connection) -> Request:
    """Return the usual limit, or the shorter one of the engine."""
    seconds = connection.get_execution_options().get(BRIEF_SECONDS, _IDLE_SECONDS)
    if seconds >= _IDLE_SECONDS:
        return _END_WHEN_IDLE
    return f"SET LOCAL idle_in_transaction_session_timeout = {max(int(seconds * 1000), 1)}", {}


# A shared advisory lock on (name, generation). No transaction ever waits for it, because none takes it exclusively. The
# lock only tells a successor the backends to end. Two sites in one database have leases of equal names. So each set of
# lrq's tables has locks of its own.
_LEASE: Final = "'lrq lease ' || 'lrq_site'::regclass::oid || ' ' || "
_PRESENCE: Final[ColumnElement[Any]] = func.pg_advisory_xact_lock_shared(
    func.hashtext(text(f"{_LEASE}:name")),
    # A lock has 32-bit numbers. Equal low bits of two generations would only delay a successor.
    cast(cast(bindparam("held", type_=BigInteger), BIT(32)), Integer),
)
_DURABLY: Final[Any] = text("set_config('synchronous_commit', 'on', true)")
# A busy backend may already serve another transaction from a pool, so only idle backends are terminated.
_END_OLDER: Final = (
    "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"  # noqa: S608 - constants
    " WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    f" AND l.classid = hashtext({_LEASE}%(name)s)::bit(32)::bigint::oid"
    " AND l.objid <> CAST(%(held)s AS bigint)::bit(32)::bigint::oid"
    " AND a.usename = current_user AND l.pid <> pg_backend_pid()"
    # Idle between two statements, or in the middle of a COPY.
    " AND (a.state LIKE 'idle in transaction%%' OR a.wait_event_type = 'Client')"
    " AND a.state_change < clock_timestamp() - make_interval(secs => %(idle)s)"
)
