"""A snapshot provider made of a function, and the check of every provider."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final, cast

from lr_client.objects import name_of, require_methods, require_takes
from lr_client.snapshot.context import SnapshotContext, SnapshotProvider
from queues.errors import UsageError

#: A function that transmits the full state; its return completes the snapshot.
ProvideFunction = Callable[[SnapshotContext], None]

#: The methods of a provider and their parameters.
_METHODS: Final = {"provide_full_state_data": ("context",), "cancel": ("context",)}


class FunctionProvider:
    """A `SnapshotProvider` that calls one function `(context)`.

    The snapshot is completed when the function returns, unless the function has called `context.mark_completed()`.
    """

    def __init__(self, function: ProvideFunction) -> None:
        """Raise `UsageError` unless *function* is a plain function with one parameter."""
        require_takes(function, name_of(function), _METHODS["provide_full_state_data"])
        self._function = function

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        """Call the function, then complete the snapshot.

        Raises `UsageError` if the function returned an iterator or an awaitable: its code would never run.
        """
        returned: object = self._function(context)
        if isinstance(returned, Iterator | Awaitable):
            if inspect.iscoroutine(returned):
                returned.close()
            raise UsageError(
                f"{name_of(self._function)} returned {type(returned).__name__}, and nothing would run it: call "
                "context.transmit in a `for` loop of the function itself"
            )
        if not context.attempt.completed:
            context.mark_completed()

    def cancel(self, context: SnapshotContext) -> None:
        """Do nothing: the next `context.transmit` of the function raises."""


def provider_of(given: SnapshotProvider | ProvideFunction) -> SnapshotProvider:
    """Return the provider for an object or a function.

    Raises `UsageError` for a class, for an object without the two methods, and for an `async def` or a generator.
    """
    if inspect.isroutine(given) or isinstance(given, partial):
        return FunctionProvider(given)
    require_methods(given, _METHODS, "provider")
    return cast("SnapshotProvider", given)
