"""Checks of the objects and functions that an application hands over: listeners, providers and callbacks."""

import inspect
from collections.abc import Mapping, Sequence
from functools import partial

from queues.errors import UsageError


def require_methods(owner: object, methods: Mapping[str, Sequence[str]], what: str) -> None:
    """Raise `UsageError` unless *owner* is an object, and no class, with plain methods of these names.

    *methods* gives the parameters of each name. *what* is the role of the object, for example "listener".
    """
    if inspect.isclass(owner):
        raise UsageError(f"the {what} is the class {owner.__name__}: pass an object, {owner.__name__}(…)")
    for name, parameters in methods.items():
        method = getattr(owner, name, None)
        if not callable(method):
            raise UsageError(f"the {what} {type(owner).__name__} has no method {name}: see its base class or protocol")
        require_takes(method, f"{type(owner).__name__}.{name}", parameters)


def require_takes(function: object, name: str, parameters: Sequence[str]) -> None:
    """Raise `UsageError` unless *function* is plain, and can be called with one value for each of *parameters*."""
    require_plain(function, name)
    if inspect.isclass(function) or not callable(function):
        raise UsageError(f"{name} is no function: write `def` with the parameters ({', '.join(parameters)})")
    own = parameters_of(function)
    if own is None:
        return
    try:
        own.bind(*parameters)
    except TypeError:
        raise UsageError(
            f"{name} has the parameters ({', '.join(own.parameters)}): a call brings ({', '.join(parameters)})"
        ) from None


def require_plain(function: object, name: str) -> None:
    """Raise `UsageError` for an `async def` function and for a generator, because a call would not run their code."""
    if _is(function, inspect.iscoroutinefunction, inspect.isasyncgenfunction):
        raise UsageError(f"{name} is `async def`, and nothing would await it: make it a plain `def`")
    if _is(function, inspect.isgeneratorfunction):
        raise UsageError(f"{name} is a generator, and nothing would run its code: remove `yield`")


def parameters_of(function: object) -> inspect.Signature | None:
    """Return the signature of *function*; None for a callable of C without one."""
    try:
        return inspect.signature(function) if callable(function) else None
    except (TypeError, ValueError):
        return None


def name_of(function: object) -> str:
    """Return the name of a function, or of the class of another callable."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _is(function: object, *kinds: object) -> bool:
    while isinstance(function, partial):
        function = function.func
    called = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    return any(callable(kind) and kind(one) for kind in kinds for one in (function, called))
