"""The records of a run with several rings, and the judgement over them.

Triggers in the files of the members record each promise and each branch. Triggers at the sinks record each change of
a generation and a position. The record is part of the transaction of the change.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine, text

import queues

_WATCHES = (
    "CREATE TABLE IF NOT EXISTS app_branches (n INTEGER PRIMARY KEY, generation INTEGER, branch TEXT)",
    "CREATE TABLE IF NOT EXISTS app_promises (n INTEGER PRIMARY KEY, generation INTEGER)",
    # The branch of generation g has the number g + 1.
    "CREATE TRIGGER IF NOT EXISTS app_branches_keep AFTER INSERT ON lrq_branches WHEN NEW.number > 1 BEGIN"
    " INSERT INTO app_branches (generation, branch) VALUES (NEW.number - 1, NEW.branch); END",
    "CREATE TRIGGER IF NOT EXISTS app_promises_begin AFTER INSERT ON lrq_ring_member BEGIN"
    " INSERT INTO app_promises (generation) VALUES (NEW.promised); END",
    "CREATE TRIGGER IF NOT EXISTS app_promises_keep AFTER UPDATE OF promised ON lrq_ring_member BEGIN"
    " INSERT INTO app_promises (generation) VALUES (NEW.promised); END",
)


class DiskRecord(NamedTuple):
    """The record of one disk of a member: (generation, branch) as the log got them, and the promises in order."""

    disk: str
    branches: Sequence[tuple[int, str]]
    promises: Sequence[int]


class Mark(NamedTuple):
    """A sink stored the position of one ring under a generation."""

    generation: int
    seq: int


def watch_disk(file: Path) -> None:
    """Record the promises and branches in a member's initialised file; may be repeated."""
    engine = queues.create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        for statement in _WATCHES:
            connection.execute(text(statement))
    engine.dispose()


def read_disk(file: Path, disk: str) -> DiskRecord:
    """Return the record in a member's file; *disk* names it in sentences."""
    engine = queues.create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        begun = connection.execute(text("SELECT generation, branch FROM app_branches ORDER BY n")).all()
        promised = connection.execute(text("SELECT generation FROM app_promises ORDER BY n")).scalars().all()
    engine.dispose()
    return DiskRecord(disk, [(generation, branch) for generation, branch in begun], promised)


def marks_of(sink: Engine) -> dict[str, list[Mark]]:
    """Return the marks that `site_ledger.watch_marks` has recorded, by ring, oldest first."""
    found: dict[str, list[Mark]] = {}
    query = "SELECT source, generation, seq FROM app_marks JOIN lrq_receive_queues USING (queue_id) ORDER BY n"
    with sink.connect() as connection:
        for source, generation, seq in connection.execute(text(query)):
            found.setdefault(source, []).append(Mark(generation, seq))
    return found


def problems_of_generations(ring: str, disks: Sequence[DiskRecord]) -> list[str]:
    """Return the generations of a ring with two leaders, and the disks whose promises go back. Pure.

    Each leader begins its generation with a branch of its own.
    """
    found, branches = [], dict[int, str]()
    for disk in disks:
        for generation, branch in disk.branches:
            if branches.setdefault(generation, branch) != branch:
                found.append(f"generation {generation} of {ring} has two leaders, as {disk.disk} shows")
        for earlier, later in pairwise(disk.promises):
            if later <= earlier:
                found.append(f"{disk.disk} of {ring} promised generation {later} after {earlier}")
    return found


def problems_of_marks(session: str, marks: Sequence[Mark]) -> list[str]:
    """Return the changes of one sink's marks by which a generation or a position goes back. Pure."""
    return [
        f"{session} went from generation {one.generation} at {one.seq} to generation {other.generation} at {other.seq}"
        for one, other in pairwise(marks)
        if other.generation < one.generation or other.seq < one.seq
    ]


def problems_of_keys(sink: str, applied: Sequence[tuple[str, bytes]], owed: Mapping[str, int]) -> list[str]:
    """Return the streams that a sink has applied in another order, and the keys that come back to a ring. Pure.

    *applied* are pairs of ring and payload, in order. A payload is `key/producer:number`. *owed* has the last number
    of each stream `key/producer`, and numbers begin with 1.
    """
    found, numbers, rings = [], dict[str, list[int]](), dict[str, list[str]]()
    for ring, payload in applied:
        stream, _, number = payload.decode().rpartition(":")
        numbers.setdefault(stream, []).append(int(number))
        rings.setdefault(stream.partition("/")[0], []).append(ring)
    for stream in sorted({*numbers, *owed}):
        if (got := numbers.get(stream, [])) != (want := [*range(1, owed.get(stream, 0) + 1)]):
            place = next(
                (n for n, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), min(len(got), len(want))
            )
            found.append(f"{sink} has {len(got)} of {len(want)} entries of {stream}, wrong from place {place} on")
    for key, visited in rings.items():
        order = [ring for ring, _ in groupby(visited)]
        if len(order) != len(set(order)):
            found.append(f"{sink} has applied entries of {key} from the rings {', '.join(order[:4])} in turns")
    return found
