"""The peak resident memory of processes, from Linux's VmHWM."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def forget(pids: Iterable[int]) -> None:
    """Reset the peak of each process to its present memory."""
    for pid in pids:
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak(pid: int) -> int:
    """Return the peak of one process in bytes; 0 if it is unknown."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def family(pid: int) -> dict[str, list[int]]:
    """Return the process ids of a Spark driver by kind: itself, its `java`, and its Python `workers`."""
    found: dict[str, list[int]] = {"driver": [pid], "java": [], "workers": []}
    for child in psutil.Process(pid).children():
        with suppress(psutil.Error):
            if child.name().startswith("java"):
                found["java"].append(child.pid)
                found["workers"] += [each.pid for each in child.children(recursive=True)]
    return found
