"""Checks of the arguments of an application: payloads, keys and limits (docs/design.md, "Bounds")."""

import math
from typing import Final

from queues.entry_keys import MAX_KEY_LENGTH, checked_key
from queues.errors import ConfigurationError, PayloadTooLargeError, PayloadTypeError, UsageError

__all__ = [
    "LARGEST_PAYLOAD_BYTES",
    "MAX_KEY_LENGTH",
    "MAX_PAYLOAD_BYTES",
    "checked_key",
    "checked_limit",
    "checked_payload",
    "checked_timeout",
    "is_whole",
]

#: Most bytes of a payload, unless the application sets another limit.
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
#: Most bytes of a payload that the transport can carry in one frame.
LARGEST_PAYLOAD_BYTES: Final = 128 * 1024 * 1024


def checked_limit(limit: int) -> int:
    """Return *limit* in bytes; raise `ConfigurationError` unless it is between 1 and `LARGEST_PAYLOAD_BYTES`."""
    if not is_whole(limit) or not 0 < limit <= LARGEST_PAYLOAD_BYTES:
        raise ConfigurationError(
            f"max_payload_bytes must be a whole number between 1 and {LARGEST_PAYLOAD_BYTES}, not {limit!r}"
        )
    return limit


def is_whole(number: object) -> bool:
    """Return whether *number* is a whole number, and no truth value."""
    return isinstance(number, int) and not isinstance(number, bool)


def checked_timeout(timeout: object) -> float:
    """Return *timeout* in seconds; raise `UsageError` unless it is a number. Infinity waits without an end."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or math.isnan(timeout):
        raise UsageError(f"timeout is {timeout!r}: use a number of seconds, math.inf for no limit")
    return timeout


def checked_payload(payload: object, limit: int) -> bytes:
    """Return the bytes of *payload*: bytes, or an object with their buffer, such as a `bytearray` or `memoryview`.

    Raises `PayloadTypeError` for another type, and `PayloadTooLargeError` above *limit* bytes.
    """
    if not isinstance(payload, bytes):
        try:
            # The length of a view counts items, which may have several bytes each.
            view = memoryview(payload)  # type: ignore[arg-type]
        except (TypeError, ValueError, BufferError):
            raise PayloadTypeError(
                f"the payload must be bytes, not {type(payload).__name__}: encode it first"
            ) from None
        if view.nbytes > limit:
            raise PayloadTooLargeError(view.nbytes, limit)
        return view.tobytes()
    if len(payload) > limit:
        raise PayloadTooLargeError(len(payload), limit)
    return payload
