"""The dialect of SQLite, in WAL mode."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    Text,
    TextClause,
    Update,
    bindparam,
    event,
    literal_column,
    text,
)
from sqlalchemy.engine.interfaces import DBAPIConnection

from queues.clock import now_us
from queues.database import sqlite_statements, tables
from queues.database.borrowed import engine_over
from queues.database.dialect import Statement
from queues.database.grantees import Grantee
from queues.database.left_out import require_stored
from queues.database.lock_waits import LockWait
from queues.database.sqlite_copied_tables import SqliteCopiedTables
from queues.database.sqlite_cuts import SqliteCuts
from queues.database.sqlite_followed_tables import SqliteFollowTriggers
from queues.database.sqlite_locks import (
    BEGIN_IMMEDIATE,
    TAKE_WRITE_LOCK,
    TAKE_WRITE_LOCK_ALONE,
    WAL,
    begin,
    enter_wal,
    in_transaction,
    prepare,
)
from queues.database.sqlite_statements import answer
from queues.database.standby_facts import StandbyFacts
from queues.errors import ConfigurationError

_PRESENT: Final = bindparam("present_us", callable_=now_us, type_=BigInteger())

_ALTERING: Final = text(
    r"SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' AND tbl_name LIKE 'lrq\_%' ESCAPE '\'"
    r" AND name NOT LIKE 'lrq\_%' ESCAPE '\' AND sql LIKE '%RAISE%IGNORE%'"
    " UNION SELECT name FROM sqlite_master WHERE type = 'view' AND name IN :names ORDER BY 1"
).bindparams(bindparam("names", expanding=True))


class SqliteDialect(SqliteCuts, SqliteFollowTriggers, SqliteCopiedTables):
    """See `queues.database.dialect.Dialect`; the base classes have cuts, and tables that are followed or copied."""

    # --- statements

    def bulk_insert(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        """Insert *rows* with the driver's `executemany`."""
        marks = ", ".join("?" for _ in columns)
        statement = f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - our own names
        values = [tuple(row) for row in rows]
        if values:
            require_stored(table.name, connection.exec_driver_sql(statement, values).rowcount, len(values))

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
        return [*answers, *self.run_all(connection, then, last=last)]

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
        return answer(connection, wanted, values or {})

    def run(self, connection: Connection, change: Insert | Update, values: Mapping[str, object]) -> int:
        """Carry out *change* without SQLAlchemy's own work per statement."""
        return sqlite_statements.change(connection, change, values)

    def run_all(
        self,
        connection: Connection,
        statements: Sequence[Statement],
        *,
        last: bool = False,  # noqa: ARG002 - the caller's commit costs no more
    ) -> list[Sequence[tuple[Any, ...]]]:
        """Carry out the statements one after the other, without SQLAlchemy's own work for each."""
        return [answer(connection, statement, values) for statement, values in statements]

    def now_us(self, connection: Connection) -> int:  # noqa: ARG002 - all processes of a file share the machine's clock
        """Return the machine's time."""
        return now_us()

    present_us: Final[ColumnElement[int]] = _PRESENT

    # --- transactions

    one_writer: Final = True
    # Every transaction of SQLite sees one state, and engines of `queues.create_engine` commit durably.
    one_state: Final[Mapping[str, object]] = {}
    durable_commit: Final[Sequence[Statement]] = ()

    def each_state(self, connection: Connection) -> Mapping[str, object]:  # noqa: ARG002
        """Return no options: SQLite has no levels."""
        return {}

    def begin_write(self, connection: Connection, *, briefly: bool = False) -> None:  # noqa: ARG002 - SQLite has no such limit
        """Take the write lock."""
        answer(connection, TAKE_WRITE_LOCK, {})

    def limit_lock_wait(self, connection: Connection, seconds: int) -> None:
        """Do nothing: the write lock is held already."""

    def reading_limits(self, statement: int, lock: int) -> Sequence[TextClause]:  # noqa: ARG002 - readers hold up nobody
        """Return nothing: a reader of SQLite never keeps a writer waiting."""
        return ()

    def write_aside(self, connection: Connection) -> None:
        """Do nothing: the disk of the file is one of this machine."""

    def hasten_commit(self, connection: Connection) -> bool:  # noqa: ARG002
        """Return False: SQLite has no such setting for one transaction, only for a connection."""
        return False

    def keep(self, connection: Connection, *tables: str) -> None:
        """Do nothing: a transaction of SQLite keeps its state in any case."""

    def commits_alone(self, connection: Connection) -> bool:
        """Ask the driver: with an isolation level it begins a transaction before the first write."""
        driver: Any = connection.connection.driver_connection
        # Python 3.12 has the attribute; True and False replace the rule of the isolation level.
        mode = getattr(driver, "autocommit", None)
        is_alone = mode if isinstance(mode, bool) else driver.isolation_level is None
        return is_alone and not driver.in_transaction

    def presence(self, *, durably: bool) -> Sequence[ColumnElement[Any]]:  # noqa: ARG002
        """Return no columns: SQLite has no backends to end."""
        return ()

    def end_older(self, engine: Engine, name: str, generation: int, idle: float) -> None:
        """Do nothing: SQLite has no backends to end."""

    def refuse_hidden_rows(self, engine: Engine) -> None:
        """Do nothing: SQLite hides no rows."""

    def end_idle(self, engine: Engine, seconds: float) -> None:
        """Do nothing: SQLite cannot end a transaction from outside."""

    # --- set-up

    own_tables: Final[MetaData] = tables.sqlite_metadata
    has_schemas: Final = False

    def preamble(self, schema: str | None) -> str:  # noqa: ARG002
        """Return the setting of WAL."""
        return f"{WAL};\n\n"

    def postamble(self, schema: str | None) -> str:  # noqa: ARG002
        """Return an empty text: there are no schemas."""
        return ""

    def prepare(self, engine: Engine) -> None:
        """Set WAL, a busy timeout, durable commits and BEGIN IMMEDIATE."""
        event.listen(engine, "connect", prepare)
        event.listen(engine, "begin", begin)

    def connect_within(self, url: URL, seconds: int) -> Mapping[str, object]:  # noqa: ARG002
        """Return no arguments: a file opens at once."""
        return {}

    def connect_as(self, url: URL, name: str) -> Mapping[str, object]:  # noqa: ARG002
        """Return no arguments: a file knows no connections."""
        return {}

    @contextmanager
    def exclusive(self, engine: Engine, schema: str | None = None) -> Iterator[Connection]:
        """Hold the write lock of a file in WAL mode."""
        enter_wal(engine)
        with engine.connect() as connection, connection.begin():
            # On every engine, an exclusive transaction must hold the write lock before it reads.
            if in_transaction(connection.connection):
                connection.exec_driver_sql("ROLLBACK")
            with self.migrating(connection, schema):
                yield connection

    @contextmanager
    def migrating(self, connection: Connection, schema: str | None = None) -> Iterator[None]:
        """Hold the write lock; begin the transaction that Python's driver begins only before the first write of a row.

        Without such a transaction each change of the schema would commit at once. With `autocommit=False`
        the driver begins one without the lock. A read would come first there, and then the lock could not wait.
        """
        if schema is not None:
            raise ConfigurationError("SQLite has no schemas: remove `schema`")
        alone = TAKE_WRITE_LOCK_ALONE if in_transaction(connection.connection) else [BEGIN_IMMEDIATE]
        for statement in alone:
            connection.exec_driver_sql(statement)
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

    def hiding(self, connection: Connection) -> list[str]:  # noqa: ARG002
        """Return none: SQLite hides no rows."""
        return []

    def unlogged(self, connection: Connection) -> list[str]:  # noqa: ARG002
        """Return an empty list: SQLite has no such tables."""
        return []

    def altering(self, connection: Connection) -> list[str]:
        """Look for triggers with `RAISE(IGNORE)`, and for views in place of tables; lrq has none of them."""
        return list(connection.execute(_ALTERING, {"names": tables.names(self.own_tables)}).scalars())

    def incarnation(self, connection: Connection) -> str:  # noqa: ARG002
        """Return a constant: a file cannot detect that it is a copy; the sites compare headers instead."""
        return "file"

    standby_setting: Final[ColumnElement[str]] = literal_column("''", Text())

    def standbys(self, connection: Connection) -> StandbyFacts | None:  # noqa: ARG002
        """Return None: a file has no standby servers."""
        return None

    def number(self, driver: DBAPIConnection) -> int | None:  # noqa: ARG002
        """Return None: each wait for a lock has a limit."""
        return None

    def lock_waits(self, connection: Connection, numbers: Collection[int]) -> list[LockWait]:  # noqa: ARG002
        """Return nothing."""
        return []

    def end_waits(self, connection: Connection, waits: Collection[LockWait]) -> None:
        """Do nothing."""


DIALECT = SqliteDialect()
