"""The pace of a listener: how many entries shard 0 delivers alone between two barriers."""

import pytest

from lr_client.subscriber.shard_pace import MEETING, Pace


def test_before_the_first_call_all_shards_share_the_entries() -> None:
    assert Pace().stretch(1_000) == 0


@pytest.mark.parametrize(
    ("entries", "seconds", "stretch"),
    [(100, 0.0, 1_000), (1, MEETING / 1_000, 1_000), (1, MEETING / 999, 999), (10, MEETING, 10), (1, 2 * MEETING, 0)],
)
def test_a_stretch_takes_no_longer_than_a_meeting(entries: int, seconds: float, stretch: int) -> None:
    pace = Pace()
    pace.note(entries, seconds)
    assert pace.stretch(1_000) == pytest.approx(stretch, abs=1)


def test_later_calls_count_more_than_earlier_ones() -> None:
    pace = Pace()
    for seconds in (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0):
        pace.note(1, seconds)
    assert pace.stretch(1_000) == pytest.approx(MEETING * 64, abs=1)
