"""Encode a row of a query as UTF-8 JSON, the default payload of `SqlSnapshotProvider`. Pure."""

import json
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from queues.errors import SnapshotFailedError

_CURE: Final = "give encode=, or cast the column in the query"


def row_json(row: Mapping[str, Any]) -> bytes:
    """Return *row* as one JSON object, whose names are the columns.

    A date or time is its ISO 8601 text, a decimal number and a UUID their exact text. Lists and objects stay as they
    are. Raises `SnapshotFailedError` for bytes, numbers that are not finite, and every other type.
    """
    try:
        return _ENCODER.encode(row).encode()
    except (TypeError, ValueError, RecursionError) as error:
        for name, value in row.items():
            try:
                _ENCODER.encode(value).encode()
            except (TypeError, ValueError, RecursionError):
                raise SnapshotFailedError(
                    f"column {name} holds {_told(value)}, for which JSON has no form: {_CURE}"
                ) from error
        raise


def _plain(value: object) -> str:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() if value.is_finite():
            return str(value)
        case UUID():
            return str(value)
    raise TypeError


# Built once: `json.dumps` with options builds an encoder for each call, which takes longer than the encoding.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


def _told(value: object) -> str:
    match value:
        case float() | Decimal():
            return f"the number {value}"
        case str():
            return "a text that is no Unicode"
        case list() | tuple() | dict():
            return f"a {type(value).__name__} with another type inside"
    return type(value).__name__
