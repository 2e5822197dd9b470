"""The disks of a ring's members, read from their files beside the servers: which of them have an entry."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

_PARTITIONS: Final = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'lrq_log_entries_[0-9]*'"
_NEWEST: Final = "SELECT payload FROM {table} WHERE substr(payload, 1, ?) = ? ORDER BY id DESC LIMIT 1"


class RingDisks:
    """Judges each answer of a ring in which both followers must acknowledge."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Read *files*, by rank."""
        self._files = files
        #: One sentence for each answer that came too early.
        self.problems: list[str] = []
        #: The number of answers judged.
        self.judged = 0

    def judge(self, payload: bytes) -> None:
        """Note the ranks whose files lack an answered entry; the payload has the form `producer:number`."""
        producer, _, number = payload.partition(b":")
        lacking = [rank for rank, file in enumerate(self._files) if _newest(file, producer + b":") < int(number)]
        self.judged += 1
        if lacking:
            self.problems.append(f"{payload.decode()} was answered, and the disks of the ranks {lacking} lack it")


def _newest(file: Path, prefix: bytes) -> int:
    """Return the highest number of a producer in *file*; older ones may be trimmed. -1 for none."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=60.0)) as connection:
        tables = [name for (name,) in connection.execute(_PARTITIONS)]
        found = [connection.execute(_NEWEST.format(table=table), (len(prefix), prefix)).fetchone() for table in tables]
    return max((int(row[0].removeprefix(prefix)) for row in found if row), default=-1)
