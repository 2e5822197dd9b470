"""Checks of item keys and partition keys (docs/design.md, "Bounds"). Pure."""

from typing import Final

from queues.errors import InvalidKeyError

#: Longest item or partition key, in characters.
MAX_KEY_LENGTH: Final = 512


def checked_key(key: str | None, what: str) -> str | None:
    """Return *key*; raise `InvalidKeyError` for a key that PostgreSQL or the wire cannot carry."""
    if key is None:
        return None
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_LENGTH or "\0" in key:
        raise InvalidKeyError(f"{what} must be a string of 1 to {MAX_KEY_LENGTH} characters without NUL")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise InvalidKeyError(f"{what} has a character that is no Unicode text: {error.reason}") from error
    return key
