"""Let the workers of a test run in this folder stand still, one at a time: `python -m tests.faults.stalls`.

Run it beside `make test`. A shared machine does the same now and then. A test that fails then depends on a time, or
has found a fault.
"""

import argparse
import random
import signal
import threading
from pathlib import Path

import psutil

from queues.clock import SYSTEM_CLOCK

#: A worker of pytest-xdist is a Python that gets its program from the pipe.
_WORKER = "sys.stdin.readline"


def workers(folder: Path) -> list[psutil.Process]:
    """Return the worker processes whose working directory is *folder*."""
    found = []
    for process in psutil.process_iter(["cwd", "cmdline"]):
        command = " ".join(process.info["cmdline"] or ())
        if process.info["cwd"] == str(folder) and _WORKER in command:
            found.append(process)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.5, help="how long a worker stands still")
    options.add_argument("--pause", type=float, default=5.0, help="about how long all work between")
    chosen = options.parse_args()
    never = threading.Event()
    chance = random.SystemRandom()
    while True:
        SYSTEM_CLOCK.wait(never, chosen.pause * chance.uniform(0.5, 1.5))
        present = workers(Path.cwd())
        if present:
            stall(chance.choice(present), chosen.seconds, never)


def stall(process: psutil.Process, seconds: float, never: threading.Event) -> None:
    """Stop *process* for *seconds*; a process that has ended is left alone."""
    try:
        process.send_signal(signal.SIGSTOP)
        try:
            SYSTEM_CLOCK.wait(never, seconds)
        finally:
            process.send_signal(signal.SIGCONT)
    except psutil.NoSuchProcess:
        return


if __name__ == "__main__":
    main()
