"""A table that copies the rows of a followed table, and the rows to write there."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple


class CopiedTable(NamedTuple):
    """A table of this database that is copied into."""

    #: Quoted for SQL.
    name: str
    #: The columns that may be written, with their declared types where the dialect needs these.
    columns: Mapping[str, str]
    #: The other columns, whose values the database computes.
    generated: frozenset[str]
    #: The columns that are never NULL.
    required: frozenset[str]
    #: The columns with a collation.
    texts: frozenset[str]
    #: The columns that are never updated: those of the key, and those whose values the database chooses.
    fixed: frozenset[str]
    #: The columns of the primary key; empty if there is none.
    key: tuple[str, ...]
    #: Whether changes to different keys may change places: no other unique column, foreign key or trigger sees that.
    commutes: bool


class RowImage(NamedTuple):
    """A row before a change (`part` is `old`) or after the change (`row`).

    `change` is the JSON of the whole change, and `values` the row as `queues.exact_json` reads it.
    """

    change: str
    part: Literal["row", "old"]
    values: Mapping[str, Any]


class CopyRule(NamedTuple):
    """The rows of a copy that a source may change.

    `source_column` has the source of each row, and a source changes only its own. With `greatest`, a row replaces
    another one only if its values in these columns, compared in order, are greater.
    """

    source_column: str | None = None
    greatest: tuple[str, ...] = ()
