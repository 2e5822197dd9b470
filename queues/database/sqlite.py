"""The dialect of SQLite, in WAL mode."""

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

from sqlalchemy import (
    URL,
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Engine,
    Insert,
    MetaData,
    Select,
    Table,
    TextClause,
    Update,
    bindparam,
    event,
    text,
)
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from queues.clock import SYSTEM_CLOCK, jittered, now_us
from queues.database import tables
from queues.database.borrowed import engine_over
from queues.database.dialect import READING, Statement
from queues.database.grantees import Grantee
from queues.database.sqlite_cuts import SqliteCuts
from queues.database.standby_facts import StandbyFacts
from queues.errors import ConfigurationError

#: How long a statement waits for SQLite's one writer, in seconds.
BUSY_TIMEOUT: float = 30.0
#: The shortest and the longest pause between two tries to get a lock, in seconds.
_SHORTEST_RETRY: Final = 0.0005
_LONGEST_RETRY: Final = 0.02
_WAL: Final = "PRAGMA journal_mode = WAL"
_BEGIN_IMMEDIATE: Final = "BEGIN IMMEDIATE"
# A write without effect takes the write lock, however the engine begins transactions. Without the lock, a write after a
# read could fail at once, because the busy timeout does not apply there.
_TAKE_WRITE_LOCK: Final = text("UPDATE lrq_site SET site_id = site_id WHERE one IS NULL")


_PRESENT: Final = bindparam("present_us", callable_=now_us, type_=BigInteger())


class SqliteDialect(SqliteCuts):
    """See `queues.database.dialect.Dialect`; the cuts are in the base class."""

    # --- statements

    def bulk_insert(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        """Insert *rows* with the driver's `executemany`."""
        marks = ", ".join("?" for _ in columns)
        statement = f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - our own names
        values = [tuple(row) for row in rows]
        if values:
            connection.exec_driver_sql(statement, values)

    def bulk_insert_columns(
        self,
        connection: Connection,
        table: Table,
        columns: Mapping[str, Sequence[object]],
        then: Sequence[Statement] = (),
        *,
        first: Sequence[Statement] = (),
        last: bool = False,
    ) -> list[Sequence[tuple[Any, ...]]]:
        """Insert rows with the driver's `executemany`."""
        answers = self.run_all(connection, first)
        self.bulk_insert(connection, table, list(columns), zip(*columns.values(), strict=True))
        self.run_all(connection, then, last=last)
        return answers

    def is_at_once(self, rows: int, size: int) -> bool:  # noqa: ARG002 - there are no messages
        """Return False: SQLite sends no messages."""
        return False

    def bulk_select(
        self,
        connection: Connection,
        wanted: Select[Any] | CompoundSelect[Any],
        values: Mapping[str, object] | None = None,
    ) -> Sequence[tuple[Any, ...]]:
        """Return the rows as SQLAlchemy returns them."""
        return [tuple(row) for row in connection.execute(wanted, values)]

    def run(self, connection: Connection, change: Insert | Update, values: Mapping[str, object]) -> int:
        """Carry out *change* with SQLAlchemy."""
        return connection.execute(change, values).rowcount

    def run_all(
        self,
        connection: Connection,
        statements: Sequence[Statement],
        *,
        last: bool = False,  # noqa: ARG002 - the caller's commit costs no more
    ) -> list[Sequence[tuple[Any, ...]]]:
        """Carry out the statements one after the other with SQLAlchemy."""
        results = (connection.execute(statement, values) for statement, values in statements)
        return [[tuple(row) for row in result] if result.returns_rows else [] for result in results]

    def now_us(self, connection: Connection) -> int:  # noqa: ARG002 - all processes of a file share the machine's clock
        """Return the machine's time."""
        return now_us()

    present_us: Final[ColumnElement[int]] = _PRESENT

    # --- transactions

    one_writer: Final = True
    # Every transaction of SQLite sees one state, and engines of `queues.create_engine` commit durably.
    one_state: Final[Mapping[str, object]] = {}
    durable_commit: Final[Sequence[Statement]] = ()

    def begin_write(self, connection: Connection, *, briefly: bool = False) -> None:  # noqa: ARG002 - SQLite has no such limit
        """Take the write lock."""
        connection.execute(_TAKE_WRITE_LOCK)

    def limit_lock_wait(self, connection: Connection, seconds: int) -> None:
        """Do nothing: the write lock is held already."""

    def reading_limits(self, statement: int, lock: int) -> Sequence[TextClause]:  # noqa: ARG002 - readers hold up nobody
        """Return nothing: a reader of SQLite never keeps a writer waiting."""
        return ()

    def hasten_commit(self, connection: Connection) -> bool:  # noqa: ARG002
        """Return False: SQLite has no such setting for one transaction, only for a connection."""
        return False

    def keep(self, connection: Connection, *tables: str) -> None:
        """Do nothing: a transaction of SQLite keeps its state in any case."""

    def commits_alone(self, connection: Connection) -> bool:
        """Ask the driver: with an isolation level it begins a transaction before the first write."""
        driver: Any = connection.connection.driver_connection
        return driver.isolation_level is None and not driver.in_transaction

    def presence(self, *, durably: bool) -> Sequence[ColumnElement[Any]]:  # noqa: ARG002
        """Return no columns: SQLite has no backends to end."""
        return ()

    def end_older(self, engine: Engine, name: str, generation: int, idle: float) -> None:
        """Do nothing: SQLite has no backends to end."""

    def end_idle(self, engine: Engine, seconds: float) -> None:
        """Do nothing: SQLite cannot end a transaction from outside."""

    # --- set-up

    own_tables: Final[MetaData] = tables.sqlite_metadata
    has_schemas: Final = False

    def preamble(self, schema: str | None) -> str:  # noqa: ARG002
        """Return the setting of WAL."""
        return f"{_WAL};\n\n"

    def postamble(self, schema: str | None) -> str:  # noqa: ARG002
        """Return an empty text: there are no schemas."""
        return ""

    def prepare(self, engine: Engine) -> None:
        """Set WAL, a busy timeout, durable commits and BEGIN IMMEDIATE."""
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)

    def connect_within(self, url: URL, seconds: int) -> Mapping[str, object]:  # noqa: ARG002
        """Return no arguments: a file opens at once."""
        return {}

    def connect_as(self, url: URL, name: str) -> Mapping[str, object]:  # noqa: ARG002
        """Return no arguments: a file knows no connections."""
        return {}

    @contextmanager
    def exclusive(self, engine: Engine, schema: str | None = None) -> Iterator[Connection]:
        """Hold the write lock of a file in WAL mode."""
        _enter_wal(engine)
        with engine.connect() as connection, connection.begin():
            # On every engine, an exclusive transaction must hold the write lock before it reads.
            if _in_transaction(connection.connection):
                connection.exec_driver_sql("ROLLBACK")
            with self.migrating(connection, schema):
                yield connection

    @contextmanager
    def migrating(self, connection: Connection, schema: str | None = None) -> Iterator[None]:
        """Hold the write lock; begin the transaction that Python's driver begins only before the first write of a row.

        Without such a transaction each change of the schema would commit at once.
        """
        if schema is not None:
            raise ConfigurationError("SQLite has no schemas: remove `schema`")
        if not _in_transaction(connection.connection):
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield

    def drop_schema(self, connection: Connection, schema: str) -> None:
        """Do nothing: there are no schemas."""

    def grants(self, role: str, part: Grantee, schema: str | None, *, search_path: bool) -> list[str]:  # noqa: ARG002
        """Refuse: the rights on a file are those of the operating system."""
        raise ConfigurationError(
            "SQLite has no roles: give the program the right to write the database's file and folder"
        )

    def own_schema(self, connection: Connection) -> str:  # noqa: ARG002
        """Return the name of the file's schema."""
        return "main"

    def owner(self, connection: Connection) -> str | None:  # noqa: ARG002
        """Return None: there are no roles."""
        return None

    def has_role(self, connection: Connection, role: str) -> bool:  # noqa: ARG002
        """Return False: there are no roles."""
        return False

    def hidden_in(self, connection: Connection) -> str | None:  # noqa: ARG002
        """Return None: a file has one set of names."""
        return None

    def borrow(self, driver: object) -> Engine:
        """Accept only connections of Python's sqlite3."""
        if not isinstance(driver, sqlite3.Connection):
            raise ConfigurationError(f"lrq works with Python's sqlite3, not with {type(driver).__module__}")
        return engine_over("sqlite://", driver)

    def lacks(self, connection: Connection) -> list[str]:  # noqa: ARG002
        """Return an empty list: on SQLite the schema has only tables and columns."""
        return []

    def untriggered(self, connection: Connection) -> list[str]:  # noqa: ARG002
        """Return an empty list: SQLite's ids are in the order of commits without a trigger."""
        return []

    def incarnation(self, connection: Connection) -> str:  # noqa: ARG002
        """Return a constant: a file cannot detect that it is a copy; the sites compare headers instead."""
        return "file"

    def standbys(self, connection: Connection) -> StandbyFacts | None:  # noqa: ARG002
        """Return None: a file has no standby servers."""
        return None


def _prepare(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # Only `_begin` may begin transactions, not the driver.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")
    _use_wal(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") == "AUTOCOMMIT":
        return
    if options.get(READING):
        connection.exec_driver_sql("BEGIN")
    else:
        _begin_immediate(connection)


def _begin_immediate(connection: Connection) -> None:
    """Begin with the write lock; wait for the lock up to the busy timeout of the connection.

    SQLite's own busy timeout tries again 1, 3, 8, 18, 33 and 53 ms after the first try. Between short transactions of
    others, a transaction would often meet another one at each try. Here the pauses are an eighth of the time waited.
    """
    began = SYSTEM_CLOCK.monotonic()
    driver: Any = connection.connection
    with closing(driver.cursor()) as cursor:
        longest: int = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            while (waited := SYSTEM_CLOCK.monotonic() - began) <= longest / 1_000:
                try:
                    cursor.execute(_BEGIN_IMMEDIATE)
                except sqlite3.OperationalError as error:
                    if not _is_busy(error):
                        break
                else:
                    return
                SYSTEM_CLOCK.wait(threading.Event(), jittered(min(max(waited / 8, _SHORTEST_RETRY), _LONGEST_RETRY)))
            # Once more through SQLAlchemy, which raises its own error.
            connection.exec_driver_sql(_BEGIN_IMMEDIATE)
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {longest}")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _use_wal(cursor: DBAPICursor) -> None:
    """Put the file of *cursor* into WAL mode; wait up to `BUSY_TIMEOUT` while other processes do the same.

    The loop is needed: if two connections change the mode, SQLite refuses one at once, despite its busy timeout.
    """
    until = SYSTEM_CLOCK.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            cursor.execute(_WAL)
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or SYSTEM_CLOCK.monotonic() >= until:
                raise
            SYSTEM_CLOCK.wait(threading.Event(), jittered(_LONGEST_RETRY))
        else:
            return


def _enter_wal(engine: Engine) -> None:
    # SQLAlchemy would begin a transaction, in which the mode cannot change.
    with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        if _in_transaction(connection):
            cursor.execute("ROLLBACK")
        _use_wal(cursor)


def _in_transaction(connection: PoolProxiedConnection) -> bool:
    return bool(getattr(connection.driver_connection, "in_transaction", False))


DIALECT = SqliteDialect()
