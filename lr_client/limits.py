"""How large a payload may be: decided when it is handed over, never later (DESIGN 9)."""

from typing import Final

from queues.errors import ConfigurationError, PayloadTooLargeError, UsageError

#: What a payload may have unless the application says otherwise, in bytes.
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
#: What the transport can carry in one frame, whatever anybody configures.
LARGEST_PAYLOAD_BYTES: Final = 128 * 1024 * 1024


class PayloadTypeError(UsageError, TypeError):
    """A payload is not bytes."""


def checked_limit(limit: int) -> int:
    """Return *limit*; raise `ConfigurationError` if no transport could carry such a payload."""
    if not 0 < limit <= LARGEST_PAYLOAD_BYTES:
        raise ConfigurationError(f"max_payload_bytes must be between 1 and {LARGEST_PAYLOAD_BYTES}, not {limit}")
    return limit


def checked_payload(payload: object, limit: int) -> bytes:
    """Return *payload* as bytes; raise `PayloadTooLargeError` or `PayloadTypeError`."""
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise PayloadTypeError(f"the payload must be bytes, not {type(payload).__name__}: encode it first")
    if len(payload) > limit:
        raise PayloadTooLargeError(len(payload), limit)
    return bytes(payload)
