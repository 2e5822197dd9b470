"""Order the changes of one call into statements: as few as keep the meaning of the order. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lr_client.tables.row_changes import RowChange
from queues.database.copied_table import CopiedTable, RowImage


class Put(NamedTuple):
    """Insert or update rows, of which no two have one key."""

    table: CopiedTable
    columns: tuple[str, ...]
    rows: Sequence[RowImage]


class Removal(NamedTuple):
    """Delete the rows with the keys of `rows`."""

    table: CopiedTable
    rows: Sequence[RowImage]


Step = Put | Removal
_Key = tuple[object, ...]


def plan(changes: Iterable[tuple[CopiedTable, RowChange]], source_column: str | None) -> list[Step]:
    """Return the steps that carry out *changes*; *source_column* is filled by the listener.

    Changes of a table that commutes are folded: each key has its last state. All other changes keep their order, and a
    step has neighbouring changes of one table only.
    """
    folded: dict[str, _Folded] = {}
    ordered = _Ordered()
    for table, change in changes:
        keys = [name for name in table.key if name != source_column]
        steps = folded.setdefault(table.name, _Folded(table)) if table.commutes else ordered
        before, after = (each and _key(each, keys) for each in (change.old, change.row))
        if change.old is not None and before is not None and before != after:
            steps.remove(table, before, change.old)
        if change.row is not None and after is not None:
            steps.put(table, after, _written(table, change.row, source_column), change.row)
    return [*ordered.steps(), *(step for each in folded.values() for step in each.steps())]


def _key(image: RowImage, keys: Sequence[str]) -> _Key:
    return tuple(repr(image.values.get(name)) for name in keys)


def _written(table: CopiedTable, image: RowImage, source_column: str | None) -> tuple[str, ...]:
    return tuple(name for name in image.values if name != source_column and name not in table.generated)


class _Folded:
    """The last state of each key of one table."""

    def __init__(self, table: CopiedTable) -> None:
        self._table = table
        self._removed: dict[_Key, RowImage] = {}
        self._rows: dict[_Key, tuple[tuple[str, ...], RowImage]] = {}

    def remove(self, _table: CopiedTable, key: _Key, image: RowImage) -> None:
        self._rows.pop(key, None)
        self._removed[key] = image

    def put(self, _table: CopiedTable, key: _Key, columns: tuple[str, ...], image: RowImage) -> None:
        self._removed.pop(key, None)
        self._rows[key] = (columns, image)

    def steps(self) -> Iterator[Step]:
        if self._removed:
            yield Removal(self._table, list(self._removed.values()))
        of_columns: dict[tuple[str, ...], list[RowImage]] = {}
        for columns, image in self._rows.values():
            of_columns.setdefault(columns, []).append(image)
        for columns, images in of_columns.items():
            yield Put(self._table, columns, images)


class _Ordered:
    """Steps in the order of the changes; neighbours of one kind are one step."""

    def __init__(self) -> None:
        self._steps: list[tuple[Step, set[_Key]]] = []

    def remove(self, table: CopiedTable, key: _Key, image: RowImage) -> None:
        self._add(Removal(table, [image]), key)

    def put(self, table: CopiedTable, key: _Key, columns: tuple[str, ...], image: RowImage) -> None:
        self._add(Put(table, columns, [image]), key)

    def _add(self, step: Step, key: _Key) -> None:
        if self._steps:
            last, keys = self._steps[-1]
            if last._replace(rows=()) == step._replace(rows=()) and type(last) is type(step) and key not in keys:
                keys.add(key)
                assert isinstance(last.rows, list)
                last.rows.extend(step.rows)
                return
        self._steps.append((step, {key}))

    def steps(self) -> Iterator[Step]:
        return (step for step, _ in self._steps)
