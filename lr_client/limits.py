"""How large a payload may be: decided when it is handed over, never later (DESIGN 9)."""

from typing import Final

from queues.errors import ConfigurationError, PayloadTooLargeError, UsageError

#: What a payload may have unless the application says otherwise, in bytes.
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
#: What the transport can carry in one frame, whatever anybody configures.
LARGEST_PAYLOAD_BYTES: Final = 128 * 1024 * 1024


#: Longest item or partition key, in characters.
MAX_KEY_LENGTH: Final = 512


class InvalidKeyError(UsageError, ValueError):
    """An item or partition key is no text that every database can keep."""


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


def checked_key(key: str | None, what: str) -> str | None:
    """Return *key*; raise `InvalidKeyError` for what PostgreSQL or the wire could not carry."""
    if key is None:
        return None
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_LENGTH or "\0" in key:
        raise InvalidKeyError(f"{what} must be a string of 1 to {MAX_KEY_LENGTH} characters without NUL")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise InvalidKeyError(f"{what} has a character that is no Unicode text: {error.reason}") from error
    return key
