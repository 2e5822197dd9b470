"""Listeners that change Django's models."""

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy.orm import Session

from lr_client.objects import require_methods, require_plain
from lr_client.subscriber.listener import CALLBACKS, RoutingQueueListener, undoes
from lrq.contrib.django.transactions import shared
from queues import names
from queues.errors import UsageError

if TYPE_CHECKING:
    from queues.positions import Position
    from queues.wire.entry_pb2 import RoutingTableEntryMsg

#: A function that applies entries of one source, named by its site id; None means True.
Apply = Callable[[str, "Sequence[RoutingTableEntryMsg]"], bool | None]

_FORM: Final = "write `def apply(source_id, entries)`; models change in the subscriber's transaction"


class ModelListener(RoutingQueueListener):
    """A function as a listener: `listener` makes it; a call passes its arguments on to the function, as in a test.

    The function gets the entries of the log and the rows of snapshots (`entry.type` is then `SNAPSHOT_SYNC`).
    """

    def __init__(self, client_name: str, function: Apply) -> None:
        """Deliver the entries of *client_name* to *function*; raises like `listener`."""
        self.client_name = names.client_name(client_name)
        self._function = function
        name = getattr(function, "__qualname__", type(function).__name__)
        if isinstance(function, type) or not callable(function):
            raise UsageError(f"{name} is no function: {_FORM}")
        require_plain(function, name)
        try:
            inspect.signature(function).bind("source_id", ())
        except TypeError:
            raise UsageError(f"{name} does not take two arguments: {_FORM}") from None

    def __call__(self, source_id: str, entries: "Sequence[RoutingTableEntryMsg]") -> bool | None:
        """Call the function, in the transaction of the caller."""
        return self._function(source_id, entries)

    def process_updates_in_log_entry_sync(
        self,
        session: Session,  # noqa: ARG002 - the function uses Django's models
        source_id: str,
        entries: "Sequence[RoutingTableEntryMsg]",
    ) -> bool:
        """Return the answer of the function; True for None."""
        answer = self._function(source_id, entries)
        return True if answer is None else answer

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync


def listener(client_name: str) -> Callable[[Apply], ModelListener]:
    """Make a listener of a function `(source_id, entries)`, which changes Django's models.

    `manage.py lrq_work` runs the listener. Each call brings whole source transactions in order. The changes of the
    models and the removal of the entries are one transaction. Returning None or True keeps both; False or an exception
    undoes both, and the entries come again.

    For callbacks of snapshots and rollbacks, write a `RoutingQueueListener`: its methods may change models too.

    Raises `UsageError` for an `async def` function or other arguments, and `InvalidNameError` for a malformed name.

    Example:
        >>> @listener("orders")
        ... def apply(source_id, entries):
        ...     for entry in entries:
        ...         Order.objects.create(branch=source_id, **json.loads(entry.opaque_payload))
    """
    return lambda function: ModelListener(client_name, function)


class SharingListener(RoutingQueueListener):
    """Calls another listener so that the models that the other one changes are part of the delivery's transaction."""

    def __init__(self, inner: RoutingQueueListener) -> None:
        """Wrap *inner*; raise `UsageError` if *inner* is no listener, such as a function, a class or a coroutine."""
        if inspect.isfunction(inner):
            raise UsageError(f'{inner.__qualname__} is a plain function: decorate it with @listener("client")')
        require_methods(inner, CALLBACKS, "listener")
        self.client_name = inner.client_name
        self._inner = inner
        if undoes(inner):
            require_plain(inner.on_rollback, f"{type(inner).__name__}.on_rollback")
            # A subscription asks for the attribute, to learn whether the listener can undo entries.
            self.on_rollback = self._on_rollback  # type: ignore[method-assign]

    def process_updates_in_log_entry_sync(
        self, session: Session, source_id: str, entries: "Sequence[RoutingTableEntryMsg]"
    ) -> bool:
        """Return the answer of the other listener."""
        with shared(session):
            return self._inner.process_updates_in_log_entry_sync(session, source_id, entries)

    def process_updates_in_snapshot_sync(
        self, session: Session, source_id: str, entries: "Sequence[RoutingTableEntryMsg]"
    ) -> bool:
        """Return the answer of the other listener."""
        with shared(session):
            return self._inner.process_updates_in_snapshot_sync(session, source_id, entries)

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:
        """Call the other listener."""
        with shared(session):
            return self._inner.on_snapshot_sync_start(session, source_id)

    def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None:
        """Call the other listener."""
        with shared(session):
            return self._inner.on_snapshot_sync_complete(session, source_id)

    def _on_rollback(self, session: Session, source_id: str, position: "Position") -> None:
        with shared(session):
            return self._inner.on_rollback(session, source_id, position)

    def on_error(self, source_id: str, error: Exception) -> None:
        """Call the other listener, outside any transaction."""
        self._inner.on_error(source_id, error)
