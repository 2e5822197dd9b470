"""The CPU seconds of each kind of process: they tell the cost of a snapshot on a busy machine too."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import psutil
from sqlalchemy import Engine, text

from benchmarks.snapshot import memory


def used(servers: Mapping[str, Sequence[int]], database: int) -> dict[str, float]:
    """Return the CPU seconds so far by kind: lrq's *servers*, Spark, this process, and *database* with its backends."""
    kinds: dict[str, Iterable[int]] = {**servers, **memory.family(os.getpid())}
    found = {kind: sum(map(_seconds, pids)) for kind, pids in kinds.items()}
    backends = [child.pid for child in psutil.Process(database).children()]
    ended = psutil.Process(database).cpu_times()
    found["PostgreSQL"] = ended.user + ended.system + ended.children_user + ended.children_system
    found["PostgreSQL"] += sum(map(_seconds, backends))
    return found


def since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU seconds between two answers of `used`, the kinds without any left out."""
    spent = {kind: seconds - before.get(kind, 0.0) for kind, seconds in now.items()}
    return {kind: seconds for kind, seconds in spent.items() if seconds > 0}


def postmaster(engine: Engine) -> int:
    """Return the process id of the database's first process."""
    with engine.connect() as connection:
        backend = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    return int(psutil.Process(backend).ppid())


def _seconds(pid: int) -> float:
    with suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
    return 0.0
