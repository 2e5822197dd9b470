"""`lrq demo`: its result, its errors, and no files or processes left behind."""

import json
import signal
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from lrq.demo.airports import REGIONS
from tests.lrq.demo.conftest import Demonstrate
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]


def find(pid: int, role: str) -> psutil.Process | None:
    """Return the child process of *pid* with *role*, or None."""
    for child in psutil.Process(pid).children():
        with suppress(psutil.NoSuchProcess):
            if role in child.cmdline():
                return child
    return None


def all_started(pid: int) -> list[psutil.Process]:
    """Return all processes below *pid* once Spark's Java runs; before that, an empty list."""
    # A process, such as a start script of Spark, may end between two reads of its facts.
    with suppress(psutil.NoSuchProcess):
        spark = find(pid, "paris-spark")
        if spark and any("java" in child.name() for child in spark.children(recursive=True)):
            return psutil.Process(pid).children(recursive=True)
    return []


@pytest.mark.spark
def test_every_site_ends_with_exactly_its_rows_and_entries(demonstrate: Demonstrate, temporary: Path):
    process = demonstrate("--json")
    printed, told = process.communicate(timeout=880)
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
@pytest.mark.parametrize("ending", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_an_interrupted_demonstration_leaves_no_process_and_no_file(
    demonstrate: Demonstrate, temporary: Path, ending: signal.Signals
):
    process = demonstrate()
    started = eventually(lambda: all_started(process.pid), timeout=60)
    process.send_signal(ending)
    process.communicate(timeout=60)
    assert process.returncode == 130
    eventually(lambda: not any(child.is_running() for child in started))
    assert list(temporary.iterdir()) == []


def test_without_java_the_demonstration_ends_with_one_sentence(demonstrate: Demonstrate, temporary: Path):
    process = demonstrate(JAVA_HOME="/nowhere")
    printed, told = process.communicate(timeout=60)
    assert (process.returncode, printed) == (1, "")
    assert len(told.splitlines()) == 1
    assert "Spark needs Java 17 or newer" in told
    assert list(temporary.iterdir()) == []


def test_a_process_that_dies_ends_the_demonstration_with_an_error(demonstrate: Demonstrate, temporary: Path):
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
        2, "lrq: the database of lima is not empty: give the demonstration empty databases\n"
    )  # fmt: skip
