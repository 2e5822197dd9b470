"""Check that a server may start the threads of all its sessions."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from lrq.cli.doctor.findings import Finding, warning

#: The most sessions with two threads of their own, see `lr_server.source.sink_connector`; each other one has none.
THREADED: Final = 32
#: More than the threads of a server without sessions, and those that the other sessions share.
BESIDE: Final = 50
_CHECK: Final = "threads"


def look(peers: int, clients: int, attached: int = 0) -> list[Finding]:
    """Return the finding about a site with so many *peers* and *clients*; *attached* peers attach themselves."""
    return list(judge(peers, clients, allowed(Path("/")), attached))


def judge(peers: int, clients: int, most: int | None, attached: int = 0) -> Iterator[Finding]:
    """Yield a warning if all sessions together need more than *most* threads; None is no limit. Pure."""
    sessions, kept = peers * max(clients, 1), attached * max(clients, 1)
    # While a session connects, it has one thread more. A session with an attached site keeps two threads.
    needed = sessions + 2 * (min(sessions - kept, THREADED) + kept) + attached + BESIDE
    if most is not None and needed > most:
        yield warning(
            _CHECK,
            f"a server with all {sessions:,} sessions of this site may need {needed:,} threads: {most:,} are allowed",
            "raise the limit (TasksMax of systemd, the pids of a container, ulimit -u), or add servers",
        )


def allowed(root: Path) -> int | None:
    """Return the lowest limit for threads that holds for this process; None without any. *root* is `/` but in tests."""
    files = [root / "proc/sys/kernel/threads-max", *_group_files(root)]
    found = [limit for file in files if (limit := _number(file)) is not None]
    return min([*found, *_of_user()], default=None)


def _group_files(root: Path) -> Iterator[Path]:
    # The limit of each group above holds, too.
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            place = root / "sys/fs/cgroup" / line.rpartition(":")[2].lstrip("/")
            yield from (
                folder / "pids.max" for folder in (place, *place.parents) if folder.is_relative_to(root / "sys")
            )


def _number(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return None


def _of_user() -> Iterator[int]:
    # The limit does not hold for root.
    if sys.platform != "win32" and os.geteuid() != 0:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
        if limit != resource.RLIM_INFINITY:
            yield limit
