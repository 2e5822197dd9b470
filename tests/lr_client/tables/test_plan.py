"""The order of statements that carry out changes of rows: fewer, with the same result."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_client.tables.plan import Put, Removal, Step, plan
from lr_client.tables.row_changes import RowChange, row_change
from queues.database.copied_table import CopiedTable, CopyRule
from queues.errors import ListenerError
from tests.lr_client.tables.changes import change


def table(name: str, *, commutes: bool) -> CopiedTable:
    columns = {"id": "", "n": ""}
    generated, key = frozenset(["g"]), frozenset(["id"])
    return CopiedTable(name, columns, generated, key, frozenset(), key, ("id",), commutes)


def changed(name: str, old: dict[str, Any] | None, row: dict[str, Any] | None) -> RowChange:
    return row_change(change(name, old=old, row=row))


def told(steps: list[Step]) -> list[tuple[str, str, list[object]]]:
    return [(type(step).__name__, step.table.name, [image.values["id"] for image in step.rows]) for step in steps]


def test_neighbours_of_one_kind_are_one_step_in_the_order_of_the_changes():
    a, b = table("a", commutes=False), table("b", commutes=False)
    steps = plan(
        [
            (a, changed("a", None, {"id": 1, "n": 1})),
            (a, changed("a", None, {"id": 2, "n": 1})),
            (b, changed("b", None, {"id": 3, "n": 1})),
            (a, changed("a", {"id": 1, "n": 1}, None)),
            (a, changed("a", {"id": 2, "n": 1}, {"id": 2, "n": 2})),
            (a, changed("a", {"id": 2, "n": 2}, {"id": 2, "n": 3})),
        ],
        CopyRule(),
    )
    assert told(steps) == [
        ("Put", "a", [1, 2]), ("Put", "b", [3]), ("Removal", "a", [1]), ("Put", "a", [2]), ("Put", "a", [2]),
    ]  # fmt: skip


def test_changes_of_a_table_that_commutes_are_folded_to_the_last_state_of_each_key():
    a, b = table("a", commutes=True), table("b", commutes=True)
    steps = plan(
        [
            (a, changed("a", None, {"id": 1, "n": 1})),
            (b, changed("b", None, {"id": 3, "n": 1})),
            (a, changed("a", {"id": 1, "n": 1}, {"id": 1, "n": 2})),
            (a, changed("a", {"id": 2, "n": 1}, None)),
            (a, changed("a", {"id": 1, "n": 2}, {"id": 4, "n": 2})),
        ],
        CopyRule(),
    )
    assert told(steps) == [("Removal", "a", [2, 1]), ("Put", "a", [4]), ("Put", "b", [3])]


def test_rows_with_other_columns_are_steps_of_their_own_and_generated_columns_are_left_out():
    a = table("a", commutes=True)
    steps = plan(
        [
            (a, changed("a", None, {"id": 1, "n": 1, "g": 1})),
            (a, changed("a", None, {"id": 2})),
            (a, changed("a", None, {"id": 3, "n": 1, "g": 1})),
        ],
        CopyRule(),
    )
    assert [step.columns for step in steps if isinstance(step, Put)] == [("id",), ("id", "n")]
    assert told(steps) == [("Put", "a", [2]), ("Put", "a", [1, 3])]


def test_the_source_column_is_neither_a_key_of_the_row_nor_written_from_the_row():
    a = table("a", commutes=False)._replace(key=("site", "id"))
    (step,) = plan([(a, changed("a", {"id": 1, "site": "x"}, {"id": 1, "site": "y"}))], CopyRule("site"))
    assert isinstance(step, Put)
    assert step.columns == ("id",)


def test_nothing_is_folded_or_deleted_if_the_greatest_values_decide():
    a = table("a", commutes=True)
    steps = plan(
        [
            (a, changed("a", None, {"id": 1, "n": 5})),
            (a, changed("a", {"id": 1, "n": 5}, None)),
            (a, changed("a", None, {"id": 1, "n": 1})),
            (a, changed("a", {"id": 1, "n": 1}, {"id": 2, "n": 2})),
        ],
        CopyRule(greatest=("n",)),
    )
    assert told(steps) == [("Put", "a", [1]), ("Put", "a", [1, 2])]


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]), st.sampled_from(["put", "remove", "move"]), st.integers(0, 3), st.integers(0, 3)
    ),
    max_size=30,
)


@given(CHANGES, st.booleans())
def test_the_steps_have_the_result_of_the_changes_one_by_one(chosen: list[tuple[str, str, int, int]], commutes: bool):
    expected: dict[tuple[str, int], int] = {}
    changes = []
    for number, (name, kind, key, other) in enumerate(chosen):
        before = {"id": key, "n": 0}
        after = {"id": other if kind == "move" else key, "n": number}
        expected.pop((name, key), None)
        if kind != "remove":
            expected[name, after["id"]] = number
        here = table(name, commutes=commutes)
        changes.append((here, changed(name, before, None if kind == "remove" else after)))
    state: dict[tuple[str, int], int] = {}
    for step in plan(changes, CopyRule()):
        keys = [image.values["id"] for image in step.rows]
        assert len(set(keys)) == len(keys) or isinstance(step, Removal)
        for image in step.rows:
            place = (step.table.name, image.values["id"])
            if isinstance(step, Put):
                state[place] = image.values["n"]
            else:
                state.pop(place, None)
    assert state == expected


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\xff", "no JSON in UTF-8"),
        (b"rule 1", "no JSON in UTF-8"),
        (b"[" * 100_000, "no JSON in UTF-8"),
        (b"[1]", 'no JSON object with a text "table"'),
        (b'{"table": 1, "row": {}}', 'no JSON object with a text "table"'),
        (b'{"table": "a", "row": 1, "old": null}', 'without an object "row" or "old"'),
    ],
)
def test_another_payload_is_refused_without_its_content(payload: bytes, reason: str):
    with pytest.raises(ListenerError) as refusal:
        row_change(payload)
    assert str(refusal.value) == (
        f"an entry is no change of a followed table, but {reason}: send such entries by another client"
    )
