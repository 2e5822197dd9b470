"""Which staged rows of a sink may stay when a snapshot is sent."""

from dataclasses import replace

from lr_server.protocol.histories import StagedSnapshot
from lr_server.session.staged_build import StagedBuild
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.send_snapshot import SnapshotState, SnapshotSync

READY = SnapshotSync(
    sync_id="s", client=ClientName("policy"), destination=SiteId("tokyo"), state=SnapshotState.READY, reason="",
    attempt=1, owner="", base=Position("b", 1), rows=9, bytes=9, checksum=0, progress="", error="",
    requested_us=0, updated_us=0, build="s.1",
)  # fmt: skip
BUILDING = replace(READY, state=SnapshotState.BUILDING)
SECOND = replace(READY, attempt=2, build="s.2")
STAGED = StagedSnapshot("s", 5)


def staged(rows: StagedSnapshot | None = STAGED, *, of: SnapshotSync | None = None) -> StagedBuild:
    made = StagedBuild()
    if of is not None:
        made.sends(of)
    made.told(rows)
    return made


def test_nothing_is_kept_or_forgotten_where_nothing_is_staged() -> None:
    assert staged(None).kept_rows(READY) == 0
    assert staged(StagedSnapshot("other", 5)).kept_rows(READY) == 0
    assert staged(StagedSnapshot("s", 0)).kept_rows(SECOND) == 0


def test_the_rows_of_the_build_that_this_server_sends_are_kept() -> None:
    assert staged(of=BUILDING).kept_rows(BUILDING) == 5
    assert staged(of=BUILDING).kept_rows(READY) == 5
    assert staged(of=SECOND).kept_rows(SECOND) == 5


def test_the_rows_of_an_earlier_attempt_are_forgotten() -> None:
    assert staged(of=BUILDING).kept_rows(SECOND) is None


def test_rows_that_an_earlier_server_sent_are_kept_of_a_first_attempt_only() -> None:
    assert staged().kept_rows(READY) == 5
    assert staged().kept_rows(BUILDING) == 5
    assert staged().kept_rows(SECOND) is None


def test_rows_of_a_try_that_was_not_published_are_forgotten() -> None:
    made = staged(of=READY)
    made.forget_build()
    made.told(STAGED)
    assert made.kept_rows(READY) is None


def test_the_rows_of_another_snapshot_are_not_taken_for_those_of_the_build() -> None:
    made = staged(of=SECOND)
    made.told(StagedSnapshot("other", 5))
    made.told(STAGED)
    assert made.kept_rows(SECOND) is None
