"""Order the changes of one call into statements: as few as keep the meaning of the order. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lr_client.tables.row_changes import RowChange
from queues.database.copied_table import CopiedTable, CopyRule, RowImage


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


def plan(changes: Iterable[tuple[CopiedTable, RowChange]], rule: CopyRule) -> list[Step]:
    """Return the steps that carry out *changes*.

    Changes of a table that commutes are folded: each key has its last state. All other changes keep their order, and a
    step has neighbouring changes of one table only. If the greatest values decide, nothing is folded or deleted.
    """
    folded: dict[str, _Folded] = {}
    ordered = _Ordered()
    for table, change in changes:
        folds = table.commutes and not rule.greatest
        steps = folded.setdefault(table.name, _Folded()) if folds else ordered
        keys = [name for name in table.key if name != rule.source_column]
        before, after = (each and _key(each, keys) for each in (change.old, change.row))
        if change.old is not None and before is not None and before != after and not rule.greatest:
            steps.remove(table, before, change.old)
        if change.row is not None and after is not None:
            steps.put(table, after, _written(table, change.row, rule), change.row)
    return [*ordered.steps(), *(step for each in folded.values() for step in each.steps())]


def _key(image: RowImage, keys: Sequence[str]) -> _Key:
    return tuple(repr(image.values.get(name)) for name in keys)


def _written(table: CopiedTable, image: RowImage, rule: CopyRule) -> tuple[str, ...]:
    return tuple(name for name in image.values if name != rule.source_column and name not in table.generated)


class _Folded:
    """The last state of each key of one table."""

    def __init__(self) -> None:
        self._removed: dict[_Key, Removal] = {}
        self._rows: dict[_Key, Put] = {}

    def remove(self, table: CopiedTable, key: _Key, image: RowImage) -> None:
        self._rows.pop(key, None)
        self._removed[key] = Removal(table, [image])

    def put(self, table: CopiedTable, key: _Key, columns: tuple[str, ...], image: RowImage) -> None:
        self._removed.pop(key, None)
        self._rows[key] = Put(table, columns, [image])

    def steps(self) -> Iterator[Step]:
        joined = _Ordered()
        for key, step in sorted(self._rows.items(), key=lambda item: item[1].columns):
            joined.add(step, key)
        if self._removed:
            (first, *_) = self._removed.values()
            yield first._replace(rows=[image for step in self._removed.values() for image in step.rows])
        yield from joined.steps()


class _Ordered:
    """Steps in the order of the changes; neighbours of one kind are one step."""

    def __init__(self) -> None:
        self._steps: list[tuple[Step, set[_Key]]] = []

    def remove(self, table: CopiedTable, key: _Key, image: RowImage) -> None:
        self.add(Removal(table, [image]), key)

    def put(self, table: CopiedTable, key: _Key, columns: tuple[str, ...], image: RowImage) -> None:
        self.add(Put(table, columns, [image]), key)

    def add(self, step: Step, key: _Key) -> None:
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
