"""Two empty databases and a folder for the processes of one run."""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.plan import Plan
from tests.faults.processes import Process


@pytest.fixture
def seed() -> int:
    """Give a seed that is printed; LRQ_TEST_SEED repeats it."""
    chosen = int(os.environ.get("LRQ_TEST_SEED") or random.SystemRandom().randrange(10**6))
    print(f"seed {chosen}")
    return chosen


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder whose path is short enough for sockets."""
    made = Path(tempfile.mkdtemp(prefix="lrq-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def plan(new_database: Callable[[], str], folder: Path, seed: int) -> Plan:
    """Give a plan for two sites that are yet to be set up."""
    return Plan(str(folder), new_database(), new_database(), seed)


@pytest.fixture
def process(folder: Path) -> Iterator[Callable[[str, str], Process]]:
    """Give a function that starts a process in a role, under a name; what still runs at the end is killed."""
    started: list[Process] = []

    def start(role: str, name: str) -> Process:
        started.append(Process(role, name, str(folder)))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.abandon()
        print(f"--- {one.name}", *one.log.read_text(errors="replace").splitlines()[-30:], sep="\n")
