"""The process of one role in a fault run: `python -m <module> <role> <name> <folder>`. SIGTERM ends one properly."""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

P = TypeVar("P")

_told: list[str] = []


def tell(words: str) -> None:
    """Print the status in a line `STANDS …`, if the status has changed."""
    if _told[-1:] != [words]:
        _told.append(words)
        print(f"STANDS {words}", flush=True)


def run_role(roles: Mapping[str, Callable[[P, str, threading.Event], None]], load: Callable[[str], P]) -> None:
    """Run the role of the command line by the plan that *load* finds in the folder; SIGTERM sets the event."""
    role, name, folder = sys.argv[1:]
    over = threading.Event()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    roles[role](load(folder), name, over)
