"""The databases, the folder and the processes of one fault run."""

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
    """Give a random seed and print it; LRQ_TEST_SEED sets it."""
    chosen = int(os.environ.get("LRQ_TEST_SEED") or random.SystemRandom().randrange(10**6))
    print(f"seed {chosen}")
    return chosen


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder with a path short enough for Unix sockets."""
    made = Path(tempfile.mkdtemp(prefix="lrq-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def plan(new_database: Callable[[], str], folder: Path, seed: int) -> Plan:
    """Give a plan for two sites; `set_up` has yet to create their tables."""
    return Plan(str(folder), new_database(), new_database(), seed)


@pytest.fixture
def process(folder: Path) -> Iterator[Callable[[str, str], Process]]:
    """Give a function that starts a process by role and name; running processes are killed after the test."""
    started: list[Process] = []

    def start(role: str, name: str) -> Process:
        started.append(Process(role, name, str(folder)))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.abandon()
        print(f"--- {one.name}", *one.log.read_text(errors="replace").splitlines()[-30:], sep="\n")
