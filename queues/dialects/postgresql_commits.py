"""Noticing on PostgreSQL that something was committed, without looking at any table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from sqlalchemy import Connection, Engine

from queues.dialects import postgresql_bell
from queues.dialects.postgresql_direct import held_connection
from queues.dialects.postgresql_errors import usual_errors
from queues.positions import Snapshot
from queues.transactions import mapped_errors

#: The prepared statement of a watch.
_NAME: Final = b"lrq_look"


class _Watch:
    """One round trip a look, and no transaction, on a connection of its own."""

    #: Answered with one row of texts.
    _question: str

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._wire: Any = None

    def changed(self) -> bool:
        """Tell whether what is visible may be more than at the last call; True at the first.

        Raises `StoreUnavailableError` when the database cannot be asked; the next call tries again.
        """
        with self._closed_on_error():
            return self._is_new(self._look())

    def close(self) -> None:
        """Give the connection back; the next look counts as the first."""
        connection, self._connection, self._wire = self._connection, None, None
        self._forget()
        if connection is not None:
            with suppress(Exception):
                connection.close()

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
            # Many times a second of an idle server: straight from libpq it costs a third.
            return self._row(self._wire.exec_prepared(_NAME, None), self._question)

    def _ask(self, question: str) -> Sequence[str]:
        with usual_errors(self._open()):
            return self._row(self._wire.exec_(question.encode()), question)

    def _row(self, result: Any, question: str) -> Sequence[str]:  # noqa: ANN401 - a driver's
        if result.ntuples != 1:
            # The driver knows how to raise what is wrong.
            return cast("Sequence[str]", self._open().connection.cursor().execute(question).fetchone())
        return [bytes(result.get_value(0, column)).decode() for column in range(result.nfields)]

    def _open(self) -> Connection:
        if self._connection is None:
            connection = self._connection = held_connection(self._engine)
            self._wire = cast("Any", connection.connection.dbapi_connection).pgconn
            self._wire.prepare(_NAME, self._question.encode())
        return self._connection

    def _is_new(self, answer: Sequence[str]) -> bool:
        raise NotImplementedError

    def _forget(self) -> None:
        raise NotImplementedError


class SnapshotWatch(_Watch):
    """Tells whether anything has become visible since the last look, in whatever database of the server."""

    _question = "SELECT pg_current_snapshot()::text"
    _seen: Sequence[str] = ()

    def _is_new(self, answer: Sequence[str]) -> bool:
        # Two snapshots that read the same show the same.
        new = answer != self._seen
        self._seen = answer
        return new

    def _forget(self) -> None:
        self._seen = ()


class LogWatch(_Watch):
    """Tells whether entries may have become visible since the last look: others' commits do not count.

    While it dozes it holds a lock that everybody who transmits tries to share until the transaction ends. Who does not
    get it tells with the commit; and while one who did is at work it cannot doze.
    """

    _question = (
        "SELECT pg_current_snapshot()::text, (SELECT last_value - (NOT is_called)::int FROM lrq_commit_seq)::text"
    )

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._numbers = Numbers()
        #: Whether who transmits tells; see `doze`.
        self.dozes = False

    @property
    def tellers(self) -> Sequence["LogWatch"]:
        """What can be read when somebody tells."""
        return [self] if self.dozes else []

    def fileno(self) -> int:
        """Return the connection's socket."""
        return int(self._wire.socket)

    def doze(self) -> bool:
        """See `queues.log.opening.LogWatch`."""
        with self._closed_on_error():
            (got,) = self._ask(postgresql_bell.DOZE)
            self.dozes = got == "t"
            return self.dozes

    def wake(self) -> None:
        """See `queues.log.opening.LogWatch`."""
        if self.dozes:
            self.dozes = False
            with self._closed_on_error():
                self._ask(postgresql_bell.WAKE)

    def _open(self) -> Connection:
        if self._connection is None:
            connection = super()._open()
            self._ask(postgresql_bell.TAKE_OVER)
            with usual_errors(connection):
                connection.connection.cursor().execute(postgresql_bell.LISTEN)
        return super()._open()

    def _is_new(self, answer: Sequence[str]) -> bool:
        snapshot, number = answer
        new = self._numbers.look(int(number), Snapshot.parse(snapshot))
        if self._numbers.wants_bound:
            (bound,) = self._ask("SELECT pg_current_xact_id()::text")
            self._numbers.set_bound(int(bound))
        # Who told while the answer was under way may have committed after it was found.
        return self._was_told() or new

    def _was_told(self) -> bool:
        self._wire.consume_input()
        told = 0
        while self._wire.notifies() is not None:
            told += 1
        return told > 0

    def _forget(self) -> None:
        self._numbers = Numbers()
        self.dozes = False


class Numbers:
    """Decides from the newest commit number given out, and who is running, whether to look for commits. Pure.

    Whoever transmits takes a number just before it commits, as a running transaction. When no number was taken between
    two looks, a transaction that begins now is the bound: whoever has one of the numbers began before it. When those
    of them that were still running have ended, nothing can come any more until the next number is taken.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._bound: int | None = None
        self._awaited: frozenset[int] | None = None
        #: Whether `set_bound` is to be called before the next look.
        self.wants_bound = False

    def look(self, number: int, snapshot: Snapshot) -> bool:
        """Tell whether a transaction that took a number may have ended since the last look; True at the first.

        *snapshot* may be older than *number*, but not than the last look.
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
        """Take *xid*, of a transaction that began after the last look and has ended, as the bound."""
        self._bound, self.wants_bound = xid, False
