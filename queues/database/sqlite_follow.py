"""The triggers on SQLite that send the changes of a table, as `lrq_follow` makes them on PostgreSQL. Pure.

Each trigger begins with a comment: the arguments as JSON.
"""

import json
import re
from collections.abc import Collection, Sequence
from itertools import count
from typing import Final, NamedTuple

from queues.sql_names import literal, quoted

#: Names that SQL takes without quotes.
_PLAIN: Final = re.compile("[a-z_][a-z0-9_]*")
_ARGUMENTS: Final = re.compile(r"/\* lrq (\{.*?\}) \*/")
#: The names of operations and of the rows that a trigger has of each.
_ROWS: Final = {"insert": ("NEW", None), "update": ("NEW", "OLD"), "delete": (None, "OLD")}
#: SQLite evaluates a chain of operators by a depth that has a limit, so long ones are in groups.
_GROUP: Final = 20


class TriggerArguments(NamedTuple):
    """A followed table: the arguments of `lrq follow`, and the columns and statement of the table at that time.

    Either `sites` or `sites_column` names the destinations.
    """

    table: str
    client: str
    sites: tuple[str, ...]
    sites_column: str | None
    columns: tuple[str, ...]
    created_by: str

    def triggers(self, taken: Collection[str]) -> list[str]:
        """Return the statements that create the triggers, whose names are none of *taken*, in lower case."""
        # A table that has another name now may have a trigger with this one.
        names = (f"lrq_follow_{self.client}_{self.table}{'_' * number}" for number in count())
        begin = next(name for name in names if f"{name}_insert".lower() not in taken)
        return [self._trigger(f"{begin}_{operation}", operation, *rows) for operation, rows in _ROWS.items()]

    def entry(self, row: str) -> str:
        """Return the expression of the JSON of an insert of *row*, an alias of the table."""
        return self._change("insert", row, None)

    def names(self, row: str) -> str:
        """Return the expression of the destinations that `sites_column` of *row* names, as a table of one column."""
        # A comma never stands in an escape of JSON. So the text becomes an array where each comma ends a text.
        assert self.sites_column is not None
        texts = f"""'[' || replace(json_quote(CAST({row}.{quoted(self.sites_column)} AS TEXT)), ',', '","') || ']'"""
        return (
            f"SELECT trim(j.value) AS name FROM json_each({texts}) AS j WHERE trim(j.value) <> ''"  # noqa: S608 - quoted
            " AND trim(j.value) <> (SELECT site_id FROM lrq_site)"
        )

    def _trigger(self, name: str, operation: str, new: str | None, old: str | None) -> str:
        steps = [self._columns_are_known(), *self._steps(operation, new, old)]
        body = "\n".join(f"  {step};" for step in steps)
        event = f"AFTER {operation.upper()} ON {quoted(self.table)}"
        begin = f"CREATE TRIGGER {quoted(name)} {event} BEGIN"
        return f"{begin}\n  /* lrq {self._arguments()} */\n{body}\nEND"

    def _arguments(self) -> str:
        # The JSON has no asterisk, so it cannot end the comment.
        return json.dumps(self._asdict(), ensure_ascii=False).replace("*", "\\u002a")

    def _columns_are_known(self) -> str:
        told = f"the columns of {self.table} have changed: run lrq follow again (LR009)"
        statement = f"(SELECT sql FROM sqlite_master WHERE type = 'table' AND name = {literal(self.table)})"  # noqa: S608 - quoted
        return f"SELECT RAISE(ABORT, {literal(told)}) WHERE {statement} IS NOT {literal(self.created_by)}"

    def _steps(self, operation: str, new: str | None, old: str | None) -> list[str]:
        if self.sites_column is None:
            return [self._sent(self._change(operation, new, old), literal(",".join(self.sites)))]
        if new is None or old is None:
            row = new or old
            assert row is not None
            return [self._sent_to(self._change(operation, new, old), self.names(row))]
        # For a site that loses the row or gets the row, an update is a delete or an insert.
        before, after = self.names(old), self.names(new)
        return [
            self._sent_to(self._change("delete", None, old), f"{before} EXCEPT {after}"),
            self._sent_to(self._change("insert", new, None), f"{after} EXCEPT {before}"),
            self._sent_to(self._change("update", new, old), f"{before} INTERSECT {after}"),
        ]

    def _sent_to(self, change: str, names: str) -> str:
        sites = f"(SELECT group_concat(name) FROM (SELECT DISTINCT name FROM ({names}) ORDER BY name))"  # noqa: S608 - quoted
        return f"{self._sent(change, sites)} WHERE {sites} IS NOT NULL"

    def _sent(self, change: str, sites: str) -> str:
        columns = "client, payload, destinations"
        return f"INSERT INTO lrq_transmit ({columns}) SELECT {literal(self.client)}, CAST({change} AS BLOB), {sites}"

    def _change(self, operation: str, new: str | None, old: str | None) -> str:
        place = json.dumps(_as_in_sql(self.table), ensure_ascii=False)
        parts = [literal(f'{{"table":{place},"op":"{operation}"')]
        for name, row in (("row", new), ("old", old)):
            if row is not None:
                parts += [literal(f',"{name}":{{'), self._members(row), literal("}")]
        return _joined([*parts, literal("}")])

    def _members(self, row: str) -> str:
        names = [json.dumps(name, ensure_ascii=False) for name in self.columns]
        values = [_value(f"{row}.{quoted(name)}") for name in self.columns]
        first = [f"{'' if number == 0 else ','}{name}:" for number, name in enumerate(names)]
        return _joined([part for name, value in zip(first, values, strict=True) for part in (literal(name), value)])


def arguments(statement: str) -> TriggerArguments | None:
    """Return the arguments in the statement of a trigger; None if it is none of `TriggerArguments`."""
    found = _ARGUMENTS.search(statement)
    if found is None:
        return None
    given = json.loads(found[1])
    return TriggerArguments(**{**given, "sites": tuple(given["sites"]), "columns": tuple(given["columns"])})


def _as_in_sql(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def _value(value: str) -> str:
    """Return the expression of the JSON of a value, in the form of PostgreSQL."""
    # SQLite reads and writes the last digits inexactly: 17 of them do not always mean the same number again.
    short, exact = f"printf('%!.12g', {value})", f"printf('%!.18g', {value})"
    real = (
        f"CASE WHEN abs({value}) > 1.7976931348623157e308 THEN iif({value} > 0, '\"Infinity\"', '\"-Infinity\"') "
        f"WHEN CAST({short} AS REAL) = {value} THEN {short} ELSE {exact} END"
    )
    return (
        f"CASE typeof({value}) WHEN 'null' THEN 'null' WHEN 'integer' THEN CAST({value} AS TEXT) "
        f"WHEN 'real' THEN {real} WHEN 'blob' THEN '\"\\\\x' || lower(hex({value})) || '\"' "
        f"ELSE json_quote({value}) END"
    )


def _joined(parts: Sequence[str]) -> str:
    """Return the concatenation of *parts*."""
    while len(parts) > _GROUP:
        groups = [parts[start : start + _GROUP] for start in range(0, len(parts), _GROUP)]
        parts = [f"({' || '.join(group)})" for group in groups]
    return f"({' || '.join(parts)})"
