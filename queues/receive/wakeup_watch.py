"""Receive the wakeups of idle subscribers from other processes; see `queues.receive.wakeups`."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from sqlalchemy import Connection, Engine

from queues.database.driver_errors import usual_errors
from queues.database.postgresql.autocommit import close_held, held_connection
from queues.database.transactions import mapped_errors
from queues.errors import StoreUnavailableError
from queues.receive.marks_watch import MarksWatch
from queues.receive.wakeups import CHANNEL, LOCK, WakeupPlace

#: PostgreSQL ends a listening connection without a statement for this time, in seconds. So the locks of a stopped
#: process end too.
SILENT_SECONDS: Final = 15.0


class WakeupSource(Protocol):
    """An object with a file descriptor that the operating system can wait for."""

    def fileno(self) -> int:
        """Return the file descriptor."""
        ...


class WakeupWatch(Protocol):
    """Receives the wakeups of this process. Not for several threads."""

    @property
    def silence(self) -> float:
        """The longest time between two calls of `woken`, in seconds."""
        ...

    @property
    def sources(self) -> Sequence[WakeupSource]:
        """The objects that become readable with a wakeup."""
        ...

    def sleep(self, queue_id: int) -> bool:
        """Have sinks notify this watch of new work in a queue; return False if they do not.

        Earlier commits send no notification: look at the queue once more afterwards.
        """
        ...

    def end_sleep(self, queue_id: int) -> None:
        """End the notifications of a queue, because they make the sink's commits slower."""
        ...

    def woken(self) -> set[int]:
        """Return the queues that may have new work."""
        ...

    def keep(self) -> None:
        """Keep the watch alive; call several times within `SILENT_SECONDS`."""
        ...

    def close(self) -> None:
        """Release the connection or the socket."""
        ...


def open_watch(engine: Engine, place: WakeupPlace) -> WakeupWatch:
    """Return a watch for the subscribers of this process; raise `StoreUnavailableError` if there can be none now."""
    return MarksWatch(engine, place) if place.has_datagrams else NotifyWatch(engine, SILENT_SECONDS)


class NotifyWatch:
    """Receives the notifications of PostgreSQL on a connection of its own."""

    silence: Final = SILENT_SECONDS / 3

    def __init__(self, engine: Engine, silent_seconds: float) -> None:
        """Open the connection. A pooler that shares connections would give the locks to others: then raise."""
        with mapped_errors():
            self._connection = held_connection(engine)
        try:
            with mapped_errors(), usual_errors(self._connection):
                self._wire = _wire(self._connection)
                self._begin(silent_seconds)
        except BaseException:
            self.close()
            raise

    @property
    def sources(self) -> Sequence[WakeupSource]:
        """See `WakeupWatch`."""
        return [self]

    def fileno(self) -> int:
        """Return the connection's socket."""
        return int(self._wire.socket)

    def sleep(self, queue_id: int) -> bool:
        """See `WakeupWatch`; False while a transaction of the sink has the lock."""
        return self._ask(f"SELECT pg_try_advisory_lock_shared({LOCK}, {int(queue_id)})") == "t"

    def end_sleep(self, queue_id: int) -> None:
        """See `WakeupWatch`."""
        self._ask(f"SELECT pg_advisory_unlock_shared({LOCK}, {int(queue_id)})")

    def woken(self) -> set[int]:
        """See `WakeupWatch`; raises `StoreUnavailableError` if the connection is lost."""
        with mapped_errors(), usual_errors(self._connection):
            self._wire.consume_input()
        found = set()
        while (notification := self._wire.notifies()) is not None:
            with suppress(ValueError):
                found.add(int(notification.extra))
        return found

    def keep(self) -> None:
        """See `WakeupWatch`."""
        self._ask("SELECT 1")

    def close(self) -> None:
        """See `WakeupWatch`; the locks end with the connection."""
        close_held(self._connection)

    def _begin(self, silent_seconds: float) -> None:
        own = int(self._ask("SELECT pg_backend_pid()"))
        if own != self._wire.backend_pid:
            raise StoreUnavailableError(
                "a pooler stands before the database, so no NOTIFY can come, and the subscriber polls"
            )
        self._ask(f"SELECT set_config('idle_session_timeout', '{round(silent_seconds * 1000)}', false)")
        self._connection.connection.cursor().execute(f"LISTEN {CHANNEL}")

    def _ask(self, question: str) -> str:
        with mapped_errors(), usual_errors(self._connection):
            result = self._wire.exec_(question.encode())
            if result.ntuples != 1:
                # Ask again through the driver, which raises the right error.
                return str(cast("Any", self._connection.connection.cursor()).execute(question).fetchone()[0])
            return bytes(result.get_value(0, 0)).decode()


def _wire(connection: Connection) -> Any:  # noqa: ANN401 - a driver's
    return cast("Any", connection.connection.dbapi_connection).pgconn
