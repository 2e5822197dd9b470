"""A listener made of a function: the decorator `listener`, and optional callbacks as decorators of its result."""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Final, Generic, TypeVar, Unpack, overload

from sqlalchemy.orm import Session

from lr_client.objects import name_of, require_takes
from lr_client.subscriber.column_batch import ColumnBatch
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.listener_session import checked_answer
from lr_client.subscriber.options import SubscribeOptions, checked_options
from queues import names
from queues.errors import UsageError
from queues.positions import Position
from queues.wire.entry_pb2 import RoutingTableEntryMsg

#: A function that applies entries; None means True.
ApplyFunction = Callable[[Session, str, Sequence[RoutingTableEntryMsg]], bool | None]
Applies = TypeVar("Applies", bound=ApplyFunction)
AppliesRows = TypeVar("AppliesRows", bound=ApplyFunction)
Tells = TypeVar("Tells", bound=Callable[[Session, str], None])
AppliesColumns = TypeVar("AppliesColumns", bound=Callable[[Session, str, ColumnBatch], bool | None])
Undoes = TypeVar("Undoes", bound=Callable[[Session, str, Position], None])
Learns = TypeVar("Learns", bound=Callable[[str, Exception], None])

APPLY_PARAMETERS: Final = ("session", "source_id", "entries")
COLUMNS_PARAMETERS: Final = ("session", "source_id", "columns")
#: The parameters of each optional callback.
OPTIONAL: Final = {
    "on_snapshot_sync_start": ("session", "source_id"),
    "on_snapshot_sync_complete": ("session", "source_id"),
    "on_rollback": ("session", "source_id", "position"),
    "on_stream_end": ("session", "source_id"),
    "on_error": ("source_id", "error"),
}


def listener(client: str, **options: Unpack[SubscribeOptions]) -> Callable[[Applies], "FunctionListener[Applies]"]:
    """Make a listener of *client* from a function `(session, source_id, entries)`.

    The function applies log entries and snapshot rows alike, as the methods of `RoutingQueueListener` do. Returning
    None means True. False or an exception rolls back, and the entries come again. *options* are those of `subscribe`,
    which uses them unless its caller gives others.

    Raises:
        InvalidNameError: *client* is malformed.
        UsageError: an option is unknown or out of range. The decorated object raises the same error if it is a class,
            an `async def`, a generator, or takes other parameters.

    Example:
        >>> @listener("policy", max_tries=3)
        ... def apply(session, source_id, entries):
        ...     session.add_all(Rule.decode(entry.opaque_payload) for entry in entries)
        ...
        >>> @apply.on_snapshot_sync_start
        ... def clear(session, source_id):
        ...     session.execute(delete(Rule).where(Rule.source == source_id))
        ...
        >>> subscription = subscribe(engine, apply)
    """
    if callable(client):
        raise UsageError(f'@listener has no client: write @listener("CLIENT") above `def {name_of(client)}`')
    checked_name, checked = names.client_name(client), checked_options(options)

    def decorate(function: Applies) -> FunctionListener[Applies]:
        require_takes(function, name_of(function), APPLY_PARAMETERS)
        return FunctionListener(function, checked_name, checked)

    return decorate


class FunctionListener(RoutingQueueListener, Generic[Applies]):
    """A listener that calls one function; made by `listener`. Calling the object calls the plain function.

    Each optional callback is a decorator, used at most once: `@apply.on_rollback`. `@apply.snapshot` names another
    function for snapshot rows, and `@apply.snapshot_columns` one that gets them as a `ColumnBatch`.
    """

    def __init__(self, function: Applies, client: names.ClientName, options: SubscribeOptions) -> None:
        """Wrap *function*, already checked; *options* are those of `subscribe`."""
        update_wrapper(self, function)
        self._function = function
        self._callbacks: dict[str, Callable[..., Any]] = {}
        self.client_name = client
        self.options: Final = options

    @property
    def __call__(self) -> Applies:
        """The plain function, with its own parameters and answer."""
        return self._function

    def __repr__(self) -> str:
        """Name the function and the client."""
        return f"<listener {name_of(self._function)} of client {self.client_name!r}>"

    @property
    def undoes(self) -> bool:
        """Whether a function was named by `@….on_rollback`."""
        return "on_rollback" in self._callbacks

    @property
    def takes_columns(self) -> bool:
        """Whether a function was named by `@….snapshot_columns`."""
        return "snapshot_columns" in self._callbacks

    def process_updates_in_log_entry_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Call the function."""
        return _answer(self._function, session, source_id, entries)

    def process_updates_in_snapshot_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Call the function of `@….snapshot`, or else the function of log entries."""
        return _answer(self._callbacks.get("snapshot", self._function), session, source_id, entries)

    def process_snapshot_columns(self, session: Session, source_id: str, columns: ColumnBatch) -> bool:
        """Call the function of `@….snapshot_columns`."""
        return _answer(self._callbacks["snapshot_columns"], session, source_id, columns)

    def snapshot(self, function: AppliesRows) -> AppliesRows:
        """Name another function for snapshot rows; a decorator."""
        self._name("snapshot", function, APPLY_PARAMETERS)
        return function

    def snapshot_columns(self, function: AppliesColumns) -> AppliesColumns:
        """Name a function `(session, source_id, columns)` for snapshot rows in bulk; a decorator.

        The function is called instead of the other ones; see `RoutingQueueListener.process_snapshot_columns`.
        """
        self._name("snapshot_columns", function, COLUMNS_PARAMETERS)
        return function

    @overload
    def on_snapshot_sync_start(self, function: Tells, /) -> Tells: ...
    @overload
    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None: ...
    def on_snapshot_sync_start(self, *given: Any, **named: Any) -> Any:
        """Name the function to call when a snapshot starts; see `RoutingQueueListener`."""
        return self._optional("on_snapshot_sync_start", given, named)

    @overload
    def on_snapshot_sync_complete(self, function: Tells, /) -> Tells: ...
    @overload
    def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None: ...
    def on_snapshot_sync_complete(self, *given: Any, **named: Any) -> Any:
        """Name the function to call when all rows of a snapshot are applied; see `RoutingQueueListener`."""
        return self._optional("on_snapshot_sync_complete", given, named)

    @overload
    def on_rollback(self, function: Undoes, /) -> Undoes: ...
    @overload
    def on_rollback(self, session: Session, source_id: str, position: Position) -> None: ...
    def on_rollback(self, *given: Any, **named: Any) -> Any:
        """Name the function that undoes lost entries; see `RoutingQueueListener`."""
        return self._optional("on_rollback", given, named)

    @overload
    def on_stream_end(self, function: Tells, /) -> Tells: ...
    @overload
    def on_stream_end(self, session: Session, source_id: str) -> None: ...
    def on_stream_end(self, *given: Any, **named: Any) -> Any:
        """Name the function to call after all entries of an ended link; see `RoutingQueueListener`."""
        return self._optional("on_stream_end", given, named)

    @overload
    def on_error(self, function: Learns, /) -> Learns: ...
    @overload
    def on_error(self, source_id: str, error: Exception) -> None: ...
    def on_error(self, *given: Any, **named: Any) -> Any:
        """Name the function that learns of errors; see `RoutingQueueListener`."""
        return self._optional("on_error", given, named)

    def _optional(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> object:
        """Name a callback if one function is given, otherwise call it."""
        if named or len(given) > 1:
            called = self._callbacks.get(name, getattr(super(), name))
            return called(*given, **named)
        if not given:
            raise UsageError(f"@….{name}() names no function: write @….{name} without parentheses")
        self._name(name, given[0], OPTIONAL[name])
        return given[0]

    def _name(self, role: str, function: Callable[..., Any], parameters: Sequence[str]) -> None:
        require_takes(function, name_of(function), parameters)
        if role in self._callbacks:
            raise UsageError(f"{role} of {self!r} is {name_of(self._callbacks[role])} already: name one function")
        self._callbacks[role] = function


def _answer(function: Callable[..., object], *details: Any) -> bool:  # noqa: ANN401 - the three of `ApplyFunction`
    answer = function(*details)
    return True if answer is None else checked_answer(answer, name_of(function))
