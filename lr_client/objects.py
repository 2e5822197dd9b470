"""Checks of the objects with methods that an application hands over: listeners, providers and functions."""

import inspect
from collections.abc import Iterable
from functools import partial

from queues.errors import UsageError


def require_methods(owner: object, names: Iterable[str], what: str) -> None:
    """Raise `UsageError` unless *owner* is an object, and no class, with plain methods of these *names*.

    *what* is the role of the object, for example "listener".
    """
    if inspect.isclass(owner):
        raise UsageError(f"the {what} is the class {owner.__name__}: pass an object, {owner.__name__}(…)")
    for name in names:
        method = getattr(owner, name, None)
        if not callable(method):
            raise UsageError(f"the {what} {type(owner).__name__} has no method {name}: see its base class or protocol")
        require_plain(method, f"{type(owner).__name__}.{name}")


def require_plain(function: object, name: str) -> None:
    """Raise `UsageError` for an `async def` function, because lrq calls it without await."""
    if _is_asynchronous(function):
        raise UsageError(f"{name} is `async def`, and nothing would await it: make it a plain `def`")


def _is_asynchronous(function: object) -> bool:
    while isinstance(function, partial):
        function = function.func
    called = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in (function, called))
