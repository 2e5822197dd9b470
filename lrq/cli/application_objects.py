"""Read the listeners and providers that the command line names, and refuse every other kind of object."""

import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, cast

from discovery.object_reference import Reference, call_factory, find_object
from lr_client.objects import parameters_of, require_plain
from lr_client.snapshot.context import SnapshotProvider
from lr_client.snapshot.function_provider import provider_of
from lr_client.subscriber.callbacks import require_listener
from lr_client.subscriber.listener import RoutingQueueListener
from queues import names
from queues.errors import LrqError, UsageError

_LISTENER: Final = "an object, a function with @lrq.listener, or a function without parameters that returns one"
_PROVIDER: Final = "an object, a function (context), or a function without parameters that returns one"


def listeners_of(
    references: Sequence[Reference], copies: Sequence[RoutingQueueListener] = ()
) -> dict[names.ClientName, RoutingQueueListener]:
    """Return the listener of each client: those that *references* name, and *copies*.

    Raises `UsageError` for another kind of object, and for two listeners of one client. Raises the errors of
    `discovery.object_reference`.
    """
    found: dict[names.ClientName, RoutingQueueListener] = {}
    homes: dict[names.ClientName, str] = {}
    for place, listener in [*_listeners(references), *(("--copy", each) for each in copies)]:
        client = names.client_name(listener.client_name)
        if client in found:
            raise UsageError(f"{homes[client]} and {place} both listen to client {client!r}: name one of them")
        found[client] = listener
        homes[client] = place
    return found


def _listeners(references: Sequence[Reference]) -> Iterator[tuple[str, RoutingQueueListener]]:
    for reference in references:
        listener = _made(reference, _LISTENER)
        try:
            require_listener(listener)
            names.client_name(getattr(listener, "client_name", None))
        except LrqError as error:
            raise UsageError(f"{reference} is no listener ({error})") from error
        yield str(reference), cast("RoutingQueueListener", listener)


def named_provider(reference: Reference) -> SnapshotProvider:
    """Return the provider; raise `UsageError` for another kind of object, or the errors of `find_object`."""
    made = _made(reference, _PROVIDER)
    try:
        return provider_of(cast("SnapshotProvider", made))
    except LrqError as error:
        raise UsageError(f"{reference} is no provider ({error})") from error


def _made(reference: Reference, wanted: str) -> object:
    """Return the named object, or the result of a function without parameters."""
    found = find_object(reference)
    if inspect.isclass(found):
        raise UsageError(f"{reference} is a class: name {wanted}")
    if inspect.ismodule(found):
        raise UsageError(f"{reference} is a module: name {wanted}")
    if not _is_factory(found):
        return found
    require_plain(found, str(reference))
    return call_factory(reference, found)


def _is_factory(found: object) -> bool:
    """Return whether *found* is a plain function, not a listener, that takes no parameters."""
    if not inspect.isroutine(found) and not isinstance(found, partial):
        return False
    own = parameters_of(found)
    return own is not None and not own.parameters
