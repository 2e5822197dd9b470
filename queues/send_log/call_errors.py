"""The errors of `lrq_transmit` in SQL, as lrq's errors. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from queues.database.encodings import lacking
from queues.database.transactions import map_cause
from queues.errors import (
    ConfigurationError,
    DestinationsError,
    InvalidHeadersError,
    InvalidKeyError,
    InvalidNameError,
    LinkEndedError,
    LrqError,
    NotInitializedError,
    PayloadTypeError,
    SetupError,
    UnknownDestinationError,
    UsageError,
    first_line,
)

_NO_TRUST: Final = "unsafe use of "
_NO_RIGHT: Final = "42501"
_NO_FUNCTION: Final = "42883"
#: Serialization failures and deadlocks: applications that repeat transactions look for the driver's own error.
_REPEAT: Final = "40"
#: The states of `lrq_transmit` on PostgreSQL begin with these letters.
_OWN: Final = "LR"
_IN_WORDS: Final = re.compile(r" \((LR\d{3})\)$")
#: The errors of Python for the codes of SQL; other codes are a `UsageError`.
CODES: Final[Mapping[str, type[LrqError]]] = {
    "LR001": InvalidNameError,
    "LR002": DestinationsError,
    "LR003": UnknownDestinationError,
    # Python's own check comes first, with the size: `PayloadTooLargeError`.
    "LR004": UsageError,
    "LR005": PayloadTypeError,
    "LR006": InvalidKeyError,
    "LR007": InvalidHeadersError,
    "LR008": NotInitializedError,
    "LR011": LinkEndedError,
    "LR012": SetupError,
}


def call_error(error: BaseException) -> LrqError | None:
    """Return our error for an error of a call of `lrq_transmit`, or None if the driver's own error says more.

    A refusal of the function is the error that Python raises for the same reason. `NotInitializedError`: the tables or
    the function are missing. `SetupError`: the role may not call the function. `StoreUnavailableError`: the database is
    locked, full or gone. `ConfigurationError`: the database's encoding lacks a character, or SQLite's connection
    does not trust the view.
    """
    if isinstance(error, UnicodeEncodeError):
        return lacking(error)
    cause = own_error(error)
    state = str(getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or "")
    words = first_line(cause)
    if found := _IN_WORDS.search(words):
        # SQLite has no states, so the view writes them after its sentence.
        state, words = found[1], words[: found.start()]
    if words.startswith(_NO_TRUST) and hasattr(cause, "sqlite_errorname"):
        return ConfigurationError(
            f"the connection does not trust the view lrq_transmit ({words}): execute `PRAGMA trusted_schema = ON`"
        )
    if state.startswith(_OWN):
        return CODES.get(state, UsageError)(words)
    if state == _NO_RIGHT and "lrq_transmit" in words:
        return SetupError(f"the role of this connection may not transmit ({words}): run `lrq grant ROLE --as sender`")
    if state == _NO_FUNCTION and "lrq_transmit" in words:
        return NotInitializedError(f"the database lacks the function lrq_transmit ({words}): run `lrq init`")
    if state.startswith(_REPEAT):
        return None
    is_lost = not state and not hasattr(cause, "sqlite_errorname") and type(cause).__name__ == "OperationalError"
    return map_cause(cause, is_lost=is_lost)


def own_error(error: BaseException) -> BaseException:
    """Return the driver's error inside one of SQLAlchemy or Django; *error* itself if none has a database's code."""
    found, cause = error, error.__cause__
    while cause is not None:
        if _has_code(cause):
            found = cause
        cause = cause.__cause__
    return found


def _has_code(error: BaseException) -> bool:
    return any(hasattr(error, name) for name in ("sqlstate", "pgcode", "sqlite_errorname"))
