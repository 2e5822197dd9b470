"""The default payload of a row: JSON for the types that JSON can carry, one sentence for each other type."""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from lr_client.snapshot.row_json import row_json
from queues.errors import SnapshotFailedError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (2**70, str(2**70)),
        (0.5, "0.5"),
        ("Zürich \u2028", '"Zürich \u2028"'),
        (date(2026, 2, 28), '"2026-02-28"'),
        (datetime(2026, 2, 28, 23, 59, 1, 5, tzinfo=UTC), '"2026-02-28T23:59:01.000005+00:00"'),
        (time(1, 2), '"01:02:00"'),
        (Decimal("10.10"), '"10.10"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ([1, {"a": Decimal("1.0")}], '[1,{"a":"1.0"}]'),
    ],
)
def test_a_value_has_one_form(value: object, text: str) -> None:
    payload = row_json({"id": 1, "value": value})
    assert payload == f'{{"id":1,"value":{text}}}'.encode()
    assert list(json.loads(payload)) == ["id", "value"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"\x00", "bytes"),
        (memoryview(b"x"), "memoryview"),
        (timedelta(1), "timedelta"),
        (float("nan"), "the number nan"),
        (Decimal("Infinity"), "the number Infinity"),
        ("\ud800", "a text that is no Unicode"),
        ([b"x"], "a list with another type inside"),
        ({1, 2}, "set"),
    ],
)
def test_another_value_is_refused_with_its_column(value: object, told: str) -> None:
    with pytest.raises(SnapshotFailedError) as refused:
        row_json({"id": 1, "photo": value})
    assert str(refused.value) == (
        f"column photo holds {told}, for which JSON has no form: give encode=, or cast the column in the query"
    )
