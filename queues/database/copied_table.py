"""A table that copies the rows of a followed table, and the rows to write there."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple


class CopiedTable(NamedTuple):
    """A table of this database that is copied into.

    `name` is quoted for SQL. `columns` has the columns that may be written, with their declared types where the dialect
    needs these; `generated` has the others. `key` is the primary key. The columns in `fixed` are never updated: those
    of the key, and those whose values the database makes. If the table `commutes`, changes to different keys may change
    places. No other unique column, foreign key or trigger sees that.
    """

    name: str
    columns: Mapping[str, str]
    generated: frozenset[str]
    fixed: frozenset[str]
    key: tuple[str, ...]
    commutes: bool


class RowImage(NamedTuple):
    """A row before a change (`part` is `old`) or after the change (`row`).

    `change` is the JSON of the whole change, and `values` the row as `queues.exact_json` reads it.
    """

    change: str
    part: Literal["row", "old"]
    values: Mapping[str, Any]


class Owner(NamedTuple):
    """The column with the source of each row, and the source whose rows are written."""

    column: str
    site: str
