"""The progress of a snapshot, computed from its stored counts."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine

from discovery.snapshot_reads import snapshot_status
from lr_client.snapshot.requests import SnapshotContext
from lrq.cli.views.status_tables import progress_words
from queues.clock import now_us
from queues.send_snapshot import SnapshotState
from queues.send_snapshot.progress import Progress, cut_seconds, progress_of
from tests.lr_client.snapshot.providing import (
    Provider,
    by_id,
    claim,
    newest,
    numbered,
    publish,
    quick,
    request,
    write_part,
)
from tests.waiting import eventually


@pytest.mark.parametrize(
    ("rows", "of", "seconds", "wanted"),
    [
        (0, 0, 0.0, Progress(0, None, None, None)),
        (0, 100, 5.0, Progress(0, 0.0, None, None)),
        (50, 0, 5.0, Progress(50, None, 10.0, None)),
        (50, 200, 5.0, Progress(50, 0.25, 10.0, 15.0)),
        (200, 200, 5.0, Progress(200, 1.0, 40.0, 0.0)),
        (300, 200, 5.0, Progress(300, 1.0, 60.0, None)),
        (10, 20, 0.0, Progress(10, 0.5, None, None)),
    ],
)
def test_progress_is_a_share_a_speed_and_the_time_left(rows: int, of: int, seconds: float, wanted: Progress) -> None:
    assert Progress.made(rows, of, seconds) == wanted


def test_a_snapshot_in_building_shows_its_share_and_the_age_of_its_cut(site: Engine) -> None:
    class Measured(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            context.attempt.expect(4_000)
            for number in range(2_000):
                context.transmit(b"row %d" % number)
            found = newest(site)
            seen.append(progress_of(found, found.pinned_us + 1_000_000))
            ages.append(cut_seconds(found, found.pinned_us + 3_000_000))
            words.append(progress_words(snapshot_status(found)))
            super().provide_full_state_data(context)

    seen: list[Progress | None] = []
    ages: list[float | None] = []
    words: list[str] = []
    (sync_id,) = request(site, "tokyo")
    with quick(site, Measured(numbered(2_000))):
        eventually(lambda: by_id(site, sync_id).state == "ready")
    assert seen == [Progress(2_000, 0.5, 2_000.0, 1.0)]
    assert ages == [3.0]
    assert words[0].startswith("50%, ")
    assert "cut held for" in words[0]


def test_the_speed_of_a_transfer_counts_from_the_beginning_of_the_build(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"1"] * 10))
    found = replace(by_id(site, sync_id), pinned_us=1, updated_us=9_000_001, sent_rows=5)
    assert progress_of(found, 10_000_001) == Progress(5, 0.5, 0.5, 10.0)


def test_a_snapshot_in_transfer_shows_the_share_of_arrived_rows(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"1", b"2"]))
    found = by_id(site, sync_id)
    assert (found.state, found.sent_rows) == (SnapshotState.READY, 0)
    assert progress_of(found, found.updated_us) == Progress(0, 0.0, None, None)
    assert cut_seconds(found, now_us()) is None
