"""The demonstration as a command: its result, and what it leaves behind."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import psutil
import pytest

from lrq_cli.demo.airports import REGIONS
from tests.waiting import eventually

Demonstrate = Callable[..., "subprocess.Popen[str]"]

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Give a folder for temporary files, of which nothing may be left; its name leaves room for those of sockets."""
    with tempfile.TemporaryDirectory(prefix="lrq-") as folder:
        yield Path(folder)


@pytest.fixture
def demonstrate(temporary: Path) -> Iterator[Demonstrate]:
    """Give a function that starts `lrq demo` with options and environment variables."""
    with ExitStack() as stack:

        def start(*options: str, **environment: str) -> "subprocess.Popen[str]":
            process = subprocess.Popen(
                [sys.executable, "-m", "lrq_cli.main", "demo", *options],
                env={**os.environ, "TMPDIR": str(temporary), **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


def find(pid: int, role: str) -> psutil.Process | None:
    """Return the process of *role* among those that *pid* has started."""
    for child in psutil.Process(pid).children():
        with suppress(psutil.NoSuchProcess):
            if role in child.cmdline():
                return child
    return None


def all_started(pid: int) -> list[psutil.Process]:
    """Return all processes that *pid* has started by the time when Spark is among them."""
    # A process may end between two looks at it, such as the scripts by which Spark begins.
    with suppress(psutil.NoSuchProcess):
        spark = find(pid, "paris-spark")
        if spark and any("java" in child.name() for child in spark.children(recursive=True)):
            return psutil.Process(pid).children(recursive=True)
    return []


@pytest.mark.spark
def test_every_site_ends_with_exactly_what_it_is_owed(demonstrate: Demonstrate, temporary: Path):
    process = demonstrate("--json")
    printed, told = process.communicate(timeout=380)
    assert process.returncode == 0, told
    (line,) = printed.splitlines()
    result = json.loads(line)
    assert result["ok"] is True
    assert set(result["sites"]) == {"paris", *REGIONS}
    for site in REGIONS:
        assert result["sites"][site]["ok"] is True
        assert result["sites"][site]["entries"]["delivered"] > 0
        assert result["snapshot"]["sites"][site]["count"] == 1
    assert result["snapshot"]["engine"] == "spark"
    assert result["log_entries"]["rolled_back"] > 0
    assert result["log_entries"]["payload_bytes"] < result["log_entries"]["payload_bytes_as_copies"]
    assert result["sites"]["tokyo"]["seconds_down"] > 0
    assert list(temporary.iterdir()) == []


@pytest.mark.spark
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_behind_when_it_is_interrupted(
    demonstrate: Demonstrate, temporary: Path, ending: signal.Signals
):
    process = demonstrate()
    started = eventually(lambda: all_started(process.pid), timeout=60)
    process.send_signal(ending)
    process.communicate(timeout=60)
    assert process.returncode == 130
    eventually(lambda: not any(child.is_running() for child in started))
    assert list(temporary.iterdir()) == []


def test_without_java_it_says_in_one_sentence_what_to_do(demonstrate: Demonstrate, temporary: Path):
    process = demonstrate(JAVA_HOME="/nowhere")
    printed, told = process.communicate(timeout=60)
    assert (process.returncode, printed) == (1, "")
    assert len(told.splitlines()) == 1
    assert "Spark needs Java 17 or newer" in told
    assert list(temporary.iterdir()) == []


def test_a_process_that_dies_ends_it_with_what_that_process_has_said(demonstrate: Demonstrate, temporary: Path):
    process = demonstrate()
    eventually(lambda: find(process.pid, "paris-editor"), timeout=60).kill()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "paris-editor ended by itself" in told
    assert list(temporary.iterdir()) == []


def test_a_database_that_is_not_empty_is_refused(demonstrate: Demonstrate, temporary: Path):
    url = f"sqlite:///{temporary / '{site}.db'}"
    with closing(sqlite3.connect(temporary / "lima.db")) as lima:
        lima.execute("CREATE TABLE airports (icao TEXT)")
    process = demonstrate("--databases", url)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (
        2, "lrq: the database of lima is not empty: give the demonstration new ones\n"
    )  # fmt: skip
