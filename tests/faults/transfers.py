"""Kill servers during a snapshot transfer, and read the chunks that source servers have logged."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from sqlalchemy import Engine, text

from tests.faults.plan import Plan
from tests.faults.processes import Process
from tests.waiting import eventually


@dataclass(frozen=True)
class Chunk:
    """Rows `first` to `last` of a snapshot in one frame."""

    first: int
    last: int


def kill_on_the_way(victims: list[Process], plan: Plan, sink: Engine, rows: int, *, timeout: float) -> None:
    """Kill and restart each of *victims* in the middle of a transfer of *rows* rows.

    The transfer is divided into parts. Victim *n* dies once the sink has *n* parts. The source may send only one part
    more, so that even a late kill precedes the end. `Plan.allow_rows` must forbid the last row before the call;
    afterwards all rows are allowed.
    """
    assert not plan.allows_row(rows), "the transfer may be over before the first kill"
    part = rows // (len(victims) + 2)
    staged = text("SELECT coalesce(max(staging_rows), 0) FROM lrq_receive_marks")

    def at_sink() -> int:
        with sink.connect() as connection:
            return connection.execute(staged).scalar_one()

    for number, victim in enumerate(victims, start=1):
        plan.allow_rows((number + 1) * part)
        eventually(lambda wanted=number * part: at_sink() >= wanted, timeout=timeout, interval=0.002)
        victim.kill()
        victim.start()
    plan.allow_rows(rows)


def sent_chunks(*logs: Path) -> dict[str, list[Chunk]]:
    """Return the chunks of each snapshot in the order of sending."""
    chunks: dict[str, list[Chunk]] = defaultdict(list)
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            match line.split():
                case ["SENT", sync_id, first, rows]:
                    chunks[sync_id].append(Chunk(int(first), int(first) + int(rows) - 1))
    return dict(chunks)


def needless(chunks: list[Chunk], window_frames: int) -> str:
    """Name a place where the transfer repeated acknowledged rows; return an empty text if there is none.

    At most one window of frames is unacknowledged, so a new connection may repeat no more than that.
    """
    largest = max(chunk.last - chunk.first + 1 for chunk in chunks)
    for before, after in pairwise(chunks):
        if after.first <= before.last - window_frames * largest:
            return f"sent again from row {after.first} after row {before.last}"
    return ""
