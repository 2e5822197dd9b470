"""Notice new commits on PostgreSQL without reading a table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from sqlalchemy import Connection, Engine

from queues.database.driver_errors import usual_errors
from queues.database.postgresql.autocommit import close_held, held_connection
from queues.database.transactions import mapped_errors
from queues.positions import PgSnapshot
from queues.send_log.postgresql import notify

#: The prepared statement of a watch.
_NAME: Final = b"lrq_look"


class _Watch:
    """Polls with one round trip and without a transaction, on a separate connection."""

    #: A query that returns one row of texts.
    _question: str

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._wire: Any = None

    def changed(self) -> bool:
        """Return whether new commits may be visible since the last call; True at the first call.

        Raises `StoreUnavailableError` if the database does not answer; the next call tries again.
        """
        with self._closed_on_error():
            return self._is_new(self._look())

    def close(self) -> None:
        """Close the connection; the next call of `changed` counts as the first."""
        connection, self._connection, self._wire = self._connection, None, None
        self._forget()
        if connection is not None:
            close_held(connection)

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            with mapped_errors():
                yield
        except BaseException:
            self.close()
            raise

    def _look(self) -> Sequence[str]:
        with usual_errors(self._open()):
            # An idle server polls many times a second; using libpq directly takes a third of the time.
            return self._row(self._wire.exec_prepared(_NAME, None), self._question)

    def _ask(self, question: str) -> Sequence[str]:
        with usual_errors(self._open()):
            return self._row(self._wire.exec_(question.encode()), question)

    def _row(self, result: Any, question: str) -> Sequence[str]:  # noqa: ANN401 - a driver's
        if result.ntuples != 1:
            # Ask again through the driver, which raises the right error.
            return cast("Sequence[str]", self._open().connection.cursor().execute(question).fetchone())
        return [bytes(result.get_value(0, column)).decode() for column in range(result.nfields)]

    def _open(self) -> Connection:
        if self._connection is None:
            connection = self._connection = held_connection(self._engine)
            self._wire = cast("Any", connection.connection.dbapi_connection).pgconn
            with usual_errors(connection):
                self._wire.prepare(_NAME, self._question.encode())
        return self._connection

    def _is_new(self, answer: Sequence[str]) -> bool:
        raise NotImplementedError

    def _forget(self) -> None:
        raise NotImplementedError


class SnapshotWatch(_Watch):
    """Tells whether any database of the server may have new commits since the last look."""

    _question = "SELECT pg_current_snapshot()::text"
    _seen: Sequence[str] = ()

    def _is_new(self, answer: Sequence[str]) -> bool:
        # Equal snapshots see the same rows.
        new = answer != self._seen
        self._seen = answer
        return new

    def _forget(self) -> None:
        self._seen = ()


class PostgresqlLogWatch(_Watch):
    """Tells whether new entries may be visible since the last look; commits without entries do not count.

    For `wait_for_notify` the watch takes an exclusive lock. Each transmitting transaction tries to share that lock.
    A transaction without the lock sends a NOTIFY with its commit. While a transaction shares the lock, the watch cannot
    take it, and the server polls.
    """

    _question = (
        "SELECT pg_current_snapshot()::text, (SELECT last_value - (NOT is_called)::int FROM lrq_commit_seq)::text"
    )

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._numbers = Numbers()
        #: Whether transactions that transmit notify this watch; see `wait_for_notify`.
        self.is_notified = False

    @property
    def notifiers(self) -> Sequence["PostgresqlLogWatch"]:
        """The watch itself, whose socket becomes readable with a notification; nothing without notifications."""
        return [self] if self.is_notified else []

    def fileno(self) -> int:
        """Return the connection's socket."""
        return int(self._wire.socket)

    def changed(self) -> bool:
        """See `queues.send_log.opening.LogWatch`; a notification spares the look at the database."""
        if self.is_notified:
            with self._closed_on_error():
                if self._was_notified():
                    return True
        return super().changed()

    def wait_for_notify(self) -> bool:
        """See `queues.send_log.opening.LogWatch`."""
        with self._closed_on_error():
            (got,) = self._ask(notify.BEGIN_NOTIFY)
            self.is_notified = got == "t"
            return self.is_notified

    def end_notify(self) -> None:
        """See `queues.send_log.opening.LogWatch`."""
        if self.is_notified:
            self.is_notified = False
            with self._closed_on_error():
                self._ask(notify.WAKE)

    def _open(self) -> Connection:
        if self._connection is None:
            connection = super()._open()
            self._ask(notify.TAKE_OVER)
            with usual_errors(connection):
                connection.connection.cursor().execute(notify.LISTEN)
        return super()._open()

    def _is_new(self, answer: Sequence[str]) -> bool:
        snapshot, number = answer
        new = self._numbers.look(int(number), PgSnapshot.parse(snapshot))
        if self._numbers.wants_bound:
            (bound,) = self._ask("SELECT pg_current_xact_id()::text")
            self._numbers.set_bound(int(bound))
        # A notification may belong to a commit after the answer, so the notification counts too.
        return self._was_notified() or new

    def _was_notified(self) -> bool:
        with usual_errors(self._open()):
            self._wire.consume_input()
        told = 0
        while self._wire.notifies() is not None:
            told += 1
        return told > 0

    def _forget(self) -> None:
        self._numbers = Numbers()
        self.is_notified = False


class Numbers:
    """Decides whether new entries are possible, from the newest commit number and the running transactions. Pure.

    A transmitting transaction takes a commit number just before its commit, while it counts as running. If no number
    was taken between two looks, a new transaction id becomes the bound. Every transaction with a number has an id below
    the bound. Once all running transactions below the bound have ended, no entry can come before the next number.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._bound: int | None = None
        self._awaited: frozenset[int] | None = None
        #: Whether the caller must call `set_bound` before the next look.
        self.wants_bound = False

    def look(self, number: int, snapshot: PgSnapshot) -> bool:
        """Return whether a transaction with a number may have ended since the last look; True at the first look.

        *snapshot* may be older than *number*, but not older than the last look.
        """
        if number != self._number:
            self._number, self._bound, self._awaited = number, None, None
            return True
        if self._bound is None:
            self.wants_bound = True
            return True
        before, bound = self._awaited, self._bound
        self._awaited = frozenset(xid for xid in snapshot.running if xid < bound and (before is None or xid in before))
        return self._awaited != before

    def set_bound(self, xid: int) -> None:
        """Set the bound to *xid*, the id of a transaction that began after the last look and has ended."""
        self._bound, self.wants_bound = xid, False
