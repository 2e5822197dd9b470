"""One query of a `SqlSnapshotProvider`: its text, its parameters, and the form of each row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from sqlalchemy import TextClause, text

from lr_client.objects import require_takes
from lr_client.snapshot.row_json import row_json
from queues.errors import SnapshotFailedError, UsageError


class SqlRow(dict[str, Any]):
    """A row as a mapping of columns: `row["name"]`, or `row.name` if no method of `dict` has that name."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a value of the database
        """Return the value of the column *name*; raise `AttributeError` with the columns for another name."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the query has no column {name}: there are {', '.join(self)}") from None


Encode = Callable[[SqlRow], bytes]
#: The column with the key of the item, or a function that returns the key.
ItemKey = str | Callable[[SqlRow], str | None]

_ROW: Final = ("row",)


@dataclass(frozen=True, slots=True)
class SqlQuery:
    r"""One query, written as for `sqlalchemy.text`: `:name` is a parameter, and `\:` a colon.

    `encode` returns the payload of a row; the default is UTF-8 JSON, see `row_json`. `item_key` names the column with
    the key of the item, or is a function of the row.

    Raises `UsageError` for an empty text, parameters that do not fit, or another kind of function.
    """

    text: str
    encode: Encode = row_json
    item_key: ItemKey | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the fields."""
        if not isinstance(self.text, str) or not self.text.strip():
            raise UsageError("a query has no text: write SQL, such as SELECT id, name FROM airports")
        require_takes(self.encode, "encode", _ROW)
        if self.item_key is not None and not isinstance(self.item_key, str):
            require_takes(self.item_key, "item_key", _ROW)
        wanted = named_parameters(self.text)
        for name in sorted(wanted - set(self.parameters)):
            raise UsageError(
                f"the query names the parameter {name}: give parameters={{'{name}': …}}, or write \\: for :"
            )
        for name in sorted(set(self.parameters) - wanted):
            raise UsageError(f"the query has no parameter {name}: write :{name} in the query, or remove the value")

    def clause(self) -> TextClause:
        """Return the query for SQLAlchemy."""
        return text(self.text)

    def plan(self) -> TextClause:
        """Return a statement that plans the query without running it."""
        return text(f"EXPLAIN {self.text}")

    def key_of(self, row: SqlRow) -> str | None:
        """Return the key of the row's item; None without `item_key`.

        Raises `SnapshotFailedError` if the column is missing, or holds neither a text, a whole number nor a UUID.
        """
        if self.item_key is None:
            return None
        if callable(self.item_key):
            return self.item_key(row)
        if self.item_key not in row:
            raise SnapshotFailedError(
                f"the query has no column {self.item_key} for item_key: choose one of {', '.join(row)}"
            )
        value = row[self.item_key]
        if isinstance(value, str | int | UUID) and not isinstance(value, bool):
            return str(value)
        raise SnapshotFailedError(
            f"column {self.item_key} holds {type(value).__name__}, and a key is a text or a whole number: give "
            "item_key a function of the row"
        )


def named_parameters(sql: str) -> set[str]:
    """Return the names of the parameters in *sql*."""
    return set(text(sql).compile().params)
