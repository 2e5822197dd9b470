"""The options of `subscribe`: their names, defaults and limits."""

import difflib
from collections.abc import Mapping
from threading import TIMEOUT_MAX
from typing import Any, Final, Literal, TypedDict, cast

from discovery.ownership import TTL
from queues.errors import UsageError
from queues.partitioner_names import partitioner_of
from queues.shard_maps import checked_shards, new_map

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
    trace: bool
    shards: int
    partitioner: str


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
    "trace": True,
    "shards": 1,
    "partitioner": "hash",
}
#: The options that count; the other numbers are seconds.
_WHOLE: Final = ("max_tries", "max_batch_entries", "max_batch_bytes")


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
        elif name == "shards":
            checked_shards(value)
        elif name == "partitioner":
            partitioner_of(value)
        elif name == "trace":
            if not isinstance(value, bool):
                raise UsageError(f"trace is {value!r}: choose True or False")
        elif problem := _number_problem(name, value):
            raise UsageError(f"{name} is {value!r}: {problem}")
    return cast("SubscribeOptions", dict(given))


def _number_problem(name: str, value: object) -> str:
    """Return the sentence about a number out of range; empty if the option *name* may be *value*."""
    if name in _WHOLE:
        is_right = isinstance(value, int) and not isinstance(value, bool) and value > 0
        return "" if is_right else "limits and numbers of tries are whole numbers above zero"
    is_right = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= TIMEOUT_MAX
    return "" if is_right else "give a number of seconds above zero, and no infinite one"


def chosen_options(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options: those *given* that are not None, then the listener's *own*, then the defaults.

    Raises `UsageError` like `checked_options`, and for a partitioner that does not fit the number of shards.
    """
    chosen = {**DEFAULTS, **checked_options(own), **checked_options(_present(given))}
    new_map(1, chosen["shards"], chosen["partitioner"])
    return chosen


def _present(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
