"""The options of `subscribe`: their names, defaults and limits."""

import difflib
from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict, cast

from discovery.ownership import TTL
from queues.errors import UsageError

OnFailure = Literal["block", "park"]


class SubscribeOptions(TypedDict, total=False):
    """Options of `subscribe` and `listener`; times in seconds. `subscribe` explains each."""

    poll_interval: float
    on_failure: OnFailure
    max_tries: int
    backoff: float
    max_backoff: float
    max_batch_entries: int
    max_batch_bytes: int
    lease_ttl: float


#: The values of options that neither the listener nor the caller of `subscribe` gives.
DEFAULTS: Final[Mapping[str, Any]] = {
    "poll_interval": 1.0,
    "on_failure": "block",
    "max_tries": 5,
    "backoff": 0.05,
    "max_backoff": 10.0,
    "max_batch_entries": 1000,
    "max_batch_bytes": 4 * 1024 * 1024,
    "lease_ttl": TTL,
}


def checked_options(given: Mapping[str, Any]) -> SubscribeOptions:
    """Return *given* as options; raise `UsageError` for an unknown name or a value out of range."""
    for name, value in given.items():
        if name not in DEFAULTS:
            near = difflib.get_close_matches(name, DEFAULTS, 1)
            cure = f"did you mean {near[0]}?" if near else f"there are {', '.join(DEFAULTS)}"
            raise UsageError(f"subscribe has no option {name}: {cure}")
        if name == "on_failure":
            if value not in ("block", "park"):
                raise UsageError(f"on_failure is {value!r}: choose 'block' or 'park'")
        elif not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise UsageError(f"{name} is {value!r}: intervals, limits and numbers of tries must be greater than zero")
    return cast("SubscribeOptions", dict(given))


def chosen_options(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options: those *given* that are not None, then the listener's *own*, then the defaults.

    Raises `UsageError` like `checked_options`.
    """
    return {**DEFAULTS, **checked_options(own), **checked_options(_present(given))}


def _present(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
