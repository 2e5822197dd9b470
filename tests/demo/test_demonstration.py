"""The demonstration as a command: its result, and what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lrq_cli.demo.airports import REGIONS
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Give a folder for temporary files, of which nothing may be left; its name leaves room for those of sockets."""
    with tempfile.TemporaryDirectory(prefix="lrq-") as folder:
        yield Path(folder)


def demonstration(temporary: Path, *options: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "lrq_cli.main", "demo", *options],
        env={**os.environ, "TMPDIR": str(temporary), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.spark
def test_every_site_ends_with_exactly_what_it_is_owed(temporary: Path):
    process = demonstration(temporary, "--json")
    printed, told = process.communicate(timeout=380)
    assert process.returncode == 0, told
    (line,) = printed.splitlines()
    result = json.loads(line)
    assert result["ok"] is True
    assert set(result["sites"]) == {"paris", *REGIONS}
    for site in REGIONS:
        assert result["sites"][site]["ok"] is True
        assert result["sites"][site]["entries"]["delivered"] > 0
        assert result["snapshot"]["sites"][site]["state"] == "applied"
    assert result["snapshot"]["engine"] == "spark"
    assert result["log_entries"]["rolled_back"] > 0
    assert result["log_entries"]["payload_bytes"] < result["log_entries"]["payload_bytes_as_copies"]
    assert result["sites"]["tokyo"]["seconds_down"] > 0
    assert list(temporary.iterdir()) == []


@pytest.mark.spark
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_behind_when_it_is_interrupted(temporary: Path, ending: signal.Signals):
    process = demonstration(temporary)
    started = eventually(lambda: find_java(process.pid), timeout=60)
    process.send_signal(ending)
    process.communicate(timeout=60)
    assert process.returncode == 130
    eventually(lambda: not any(child.is_running() for child in started))
    assert list(temporary.iterdir()) == []


def find_java(pid: int) -> list[psutil.Process]:
    """Return all processes that *pid* has started, when Java is among them."""
    children = psutil.Process(pid).children(recursive=True)
    return children if any("java" in child.name() for child in children) else []


def test_without_java_it_says_in_one_sentence_what_to_do(temporary: Path):
    process = demonstration(temporary, JAVA_HOME="/nowhere")
    printed, told = process.communicate(timeout=60)
    assert (process.returncode, printed) == (1, "")
    assert len(told.splitlines()) == 1
    assert "Spark needs Java 17 or newer" in told
    assert list(temporary.iterdir()) == []


def test_a_process_that_dies_ends_it_with_what_that_process_has_said(temporary: Path):
    process = demonstration(temporary)
    editor = eventually(lambda: find(process.pid, "paris-editor"), timeout=60)
    editor.kill()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "paris-editor ended by itself" in told
    assert list(temporary.iterdir()) == []


def find(pid: int, role: str) -> psutil.Process | None:
    """Return the process of *role* among those that *pid* has started."""
    for child in psutil.Process(pid).children():
        try:
            if role in child.cmdline():
                return child
        except psutil.NoSuchProcess:
            continue
    return None
