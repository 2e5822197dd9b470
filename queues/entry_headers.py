"""The headers of an entry: few small texts by name, stored and sent as the text of one JSON object. Pure.

See docs/headers.md.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from queues.errors import CorruptFrameError, InvalidHeadersError

#: The most headers of one entry.
MAX_HEADERS: Final = 32
#: The longest name of a header, in characters.
MAX_NAME_LENGTH: Final = 128
#: The most bytes of all headers of one entry, as JSON in UTF-8.
MAX_BYTES: Final = 8_192
#: PostgreSQL writes a space after each colon and comma of a `jsonb`.
MAX_STORED_BYTES: Final = MAX_BYTES + 2 * MAX_HEADERS

_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_DECODE = json.JSONDecoder().decode


def checked_headers(headers: Mapping[str, str] | None) -> str | None:
    """Return *headers* as canonical JSON: sorted names, no spaces. Return None for no headers.

    Raises `InvalidHeadersError` (a `ValueError`) for headers beyond the limits of this module. Texts that PostgreSQL or
    the wire cannot carry raise it too.
    """
    if headers is None:
        return None
    if not isinstance(headers, Mapping):
        raise InvalidHeadersError(f"headers must be a mapping of names to texts, not {type(headers).__name__}")
    if not headers:
        return None
    problem = _problem(headers)
    if problem:
        raise InvalidHeadersError(problem)
    text = _ENCODE(dict(headers))
    try:
        size = text_size(text)
    except UnicodeEncodeError as error:
        raise InvalidHeadersError(f"the headers have a character that is no Unicode text: {error.reason}") from error
    if size > MAX_BYTES:
        raise InvalidHeadersError(f"the headers have {size} bytes as JSON, the limit is {MAX_BYTES}: shorten them")
    return text


def parse(text: str) -> dict[str, str]:
    """Return the headers in *text*: JSON of `checked_headers`, or of PostgreSQL's `jsonb`, which has spaces.

    Raises `CorruptFrameError` for another text, and for headers that `checked_headers` would refuse.
    """
    if text_size(text) > MAX_STORED_BYTES:
        raise CorruptFrameError(f"the headers of an entry have more than {MAX_STORED_BYTES} bytes")
    try:
        found: Any = _DECODE(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFrameError("the headers of an entry are no JSON") from error
    problem = _problem(found) if isinstance(found, dict) and found else "they are no JSON object with members"
    if problem:
        raise CorruptFrameError(f"the headers of an entry cannot be read: {problem}")
    return dict(found)


def text_size(text: str) -> int:
    """Return the bytes of *text* in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def _problem(headers: Mapping[Any, Any]) -> str:
    """Return the reason why *headers* are refused; empty if each name and value is allowed."""
    if len(headers) > MAX_HEADERS:
        return f"an entry has at most {MAX_HEADERS} headers, not {len(headers)}"
    for name, value in headers.items():
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
            return f"the name of a header must be a string of 1 to {MAX_NAME_LENGTH} characters"
        if not isinstance(value, str):
            return f"the header {name!r} must be a string, not {type(value).__name__}"
        if "\0" in name or "\0" in value:
            return f"the header {name!r} has a NUL character, which no database stores"
    return ""
