"""`exactly_once` skips repeated rows of the applied history, and refuses rows of another one."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from lr_client.spark import exactly_once
from lr_client.spark.receive.positions import positions
from queues.errors import NeedsFullSyncError, SetupError
from tests.left_out import rows_left_out
from tests.lr_client.spark.sources.applying import apply, streamed, told
from tests.lr_client.spark.sources.test_ended_transactions import Frame, Row


class History(Frame):
    """Rows that are numbered from 1; each letter is the branch of one row."""

    def __init__(self, branches: str) -> None:
        self._branches = branches

    def toLocalIterator(self, prefetchPartitions: bool) -> Iterator[Row]:  # noqa: N802, N803
        rows = enumerate(self._branches, 1)
        return iter([Row(number, f"{branch}{number}".encode(), branch=branch) for number, branch in rows])


@pytest.fixture
def target(sink: Engine) -> Engine:
    streamed.metadata.create_all(sink)
    return sink


def test_rows_from_before_a_failover_may_be_repeated(target: Engine) -> None:
    once = exactly_once("test", target, apply)
    for branches in ("aab", "aab", "aabbc", "aabbcc"):
        once(History(branches), 0)  # type: ignore[arg-type]
    assert told(target) == ["a1", "a2", "b3", "b4", "c5", "c6"]


@pytest.mark.parametrize(
    ("applied", "now", "lost"),
    [
        ("aaa", "abbb", "a@3 was reached, now b@3 comes"),
        ("aaa", "ab", "a@3 was reached, now b@2 comes"),
        ("abb", "acccc", "b@3 was reached, now c@3 comes"),
        ("abbb", "abcc", "b@4 was reached, now c@4 comes"),
        ("abbb", "abccc", "b@4 was reached, now c@4 comes"),
    ],
)
def test_rows_of_another_history_are_refused(target: Engine, applied: str, now: str, lost: str) -> None:
    once = exactly_once("test", target, apply)
    once(History(applied), 0)  # type: ignore[arg-type]
    before = told(target)
    with pytest.raises(NeedsFullSyncError, match=lost):
        once(History(now), 1)  # type: ignore[arg-type]
    assert told(target) == before


@pytest.mark.parametrize("on", ["INSERT", "UPDATE"])
def test_no_row_is_applied_without_the_place_of_its_stream(target: Engine, on: str) -> None:
    """Otherwise a query that starts again would apply the row once more."""
    once = exactly_once("test", target, apply)
    once(History("a" if on == "UPDATE" else ""), 0)  # type: ignore[arg-type]
    positions.metadata.create_all(target)
    before = told(target)
    words = pytest.raises(SetupError, match="left rows out of lrq_stream_positions: drop it")
    with rows_left_out(target, "lrq_stream_positions", on=on), words:
        once(History("aa"), 1)  # type: ignore[arg-type]
    assert told(target) == before
    once(History("aa"), 1)  # type: ignore[arg-type]
    assert told(target) == ["a1", "a2"]
