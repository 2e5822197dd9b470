"""What source servers sent of snapshots, as they said it."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True)
class Chunk:
    """Rows `first` to `last` of a snapshot in one frame."""

    first: int
    last: int


def sent_chunks(*logs: Path) -> dict[str, list[Chunk]]:
    """Return the chunks of each snapshot, in the order in which they were sent."""
    chunks: dict[str, list[Chunk]] = defaultdict(list)
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            match line.split():
                case ["SENT", sync_id, first, rows]:
                    chunks[sync_id].append(Chunk(int(first), int(first) + int(rows) - 1))
    return dict(chunks)


def needless(chunks: list[Chunk], window_frames: int) -> str:
    """Say where a transfer began again although more was acknowledged; nothing where it never did.

    What was sent is acknowledged but for one window, so that is all that a new connection may repeat.
    """
    largest = max(chunk.last - chunk.first + 1 for chunk in chunks)
    for before, after in pairwise(chunks):
        if after.first <= before.last - window_frames * largest:
            return f"sent again from row {after.first} after row {before.last}"
    return ""
