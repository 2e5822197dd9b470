"""Rows in PostgreSQL's binary format, for columns of every kind."""

from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from queues.database.postgresql.binary_copy import binary_copy

NUMBERS = {"smallint": ("h", 15), "integer": ("i", 31), "bigint": ("q", 63)}


def values_of(kind: str) -> st.SearchStrategy[object]:
    if kind in NUMBERS:
        most = 2 ** NUMBERS[kind][1]
        return st.integers(-most, most - 1)
    return st.text(max_size=3) if kind == "text" else st.binary(max_size=3)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[object]]]:
    """Draw the types of some columns and their values; a column may be constant, hold nulls, or hold only nulls."""
    rows = draw(st.integers(1, 4))
    types = draw(st.lists(st.sampled_from([*NUMBERS, "text", "bytea"]), min_size=1, max_size=7))
    columns = []
    for kind in types:
        value = draw(st.sampled_from([values_of(kind), st.none() | values_of(kind), st.none()]))
        column = draw(st.lists(value, min_size=rows, max_size=rows))
        columns.append(draw(st.sampled_from([column, column[:1] * rows])))
    return types, columns


def field(kind: str, value: object) -> bytes:
    if value is None:
        return pack("!i", -1)
    if kind in NUMBERS:
        value = pack(f"!{NUMBERS[kind][0]}", value)
    elif isinstance(value, str):
        value = value.encode()
    assert isinstance(value, bytes)
    return pack("!i", len(value)) + value


@given(tables())
def test_a_copy_holds_each_value_after_its_length_row_by_row(table: tuple[list[str], list[list[object]]]):
    types, columns = table
    rows = (
        pack("!h", len(types)) + b"".join(field(kind, value) for kind, value in zip(types, row, strict=True))
        for row in zip(*columns, strict=True)
    )
    assert binary_copy(types, columns) == b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"".join(rows) + b"\xff\xff"
