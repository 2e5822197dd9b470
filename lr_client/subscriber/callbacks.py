"""The methods that a subscription calls, and the check that a listener has them."""

import inspect
from functools import partial
from typing import Final

from lr_client.objects import name_of, require_methods, require_plain, require_takes
from lr_client.subscriber.function_listener import (
    APPLY_PARAMETERS,
    COLUMNS_PARAMETERS,
    OPTIONAL,
    FunctionListener,
)
from lr_client.subscriber.listener import RoutingQueueListener
from queues.errors import UsageError

#: The methods that a listener may lack.
_MISSABLE: Final = ("on_rollback", "on_stream_end")
#: The methods of every listener and their parameters; the others, and `process_snapshot_columns`, may be missing.
CALLBACKS: Final = {
    "process_updates_in_snapshot_sync": APPLY_PARAMETERS,
    "process_updates_in_log_entry_sync": APPLY_PARAMETERS,
    **{name: parameters for name, parameters in OPTIONAL.items() if name not in _MISSABLE},
}

_COLUMNS: Final = "process_snapshot_columns"


def require_listener(listener: object) -> None:
    """Raise `UsageError` unless *listener* is an object with the plain methods of a `RoutingQueueListener`."""
    if isinstance(listener, FunctionListener):
        return  # checked when it was decorated
    if inspect.isroutine(listener) or isinstance(listener, partial):
        name = name_of(listener)
        require_plain(listener, name)
        raise UsageError(f'the listener is the function {name}: decorate it with @lrq.listener("CLIENT")')
    require_methods(listener, CALLBACKS, "listener")
    for name, parameters in (*((each, OPTIONAL[each]) for each in _MISSABLE), (_COLUMNS, COLUMNS_PARAMETERS)):
        method = getattr(listener, name, None)
        if method is not None:
            require_takes(method, f"{type(listener).__name__}.{name}", parameters)


def undoes(listener: RoutingQueueListener) -> bool:
    """Return whether *listener* implements `on_rollback`."""
    if isinstance(listener, FunctionListener):
        return listener.undoes
    return _has_own(listener, "on_rollback")


def takes_columns(listener: RoutingQueueListener) -> bool:
    """Return whether *listener* implements `process_snapshot_columns`."""
    if isinstance(listener, FunctionListener):
        return listener.takes_columns
    return _has_own(listener, _COLUMNS)


def _has_own(listener: RoutingQueueListener, name: str) -> bool:
    left_out = getattr(RoutingQueueListener, name)
    method = getattr(listener, name, left_out)
    return getattr(method, "__func__", method) is not left_out
