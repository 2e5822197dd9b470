"""Read the changes that `lrq_follow` sends: docs/sql.md has their form. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from queues.database.copied_table import RowImage
from queues.errors import ListenerError
from queues.exact_json import loads


class RowChange(NamedTuple):
    """One change of a row of `table`: an insert has no `old` row, and a delete no new `row`."""

    table: str
    old: RowImage | None
    row: RowImage | None


def row_change(payload: bytes) -> RowChange:
    """Return the change in *payload*; raise `ListenerError` if *payload* is no change of a followed table."""
    try:
        text = payload.decode()
        found = loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_change("no JSON in UTF-8") from error
    if not isinstance(found, Mapping) or not isinstance(found.get("table"), str):
        raise _no_change('no JSON object with a text "table"')
    old, row = _image(found, "old", text), _image(found, "row", text)
    if old is None and row is None:
        raise _no_change('without an object "row" or "old"')
    return RowChange(found["table"], old, row)


def _image(change: Mapping[str, Any], part: Any, text: str) -> RowImage | None:  # noqa: ANN401 - one of two texts
    values = change.get(part)
    return RowImage(text, part, values) if isinstance(values, Mapping) else None


def _no_change(reason: str) -> ListenerError:
    return ListenerError(
        f"an entry is no change of a followed table, but {reason}: send such entries by another client"
    )
