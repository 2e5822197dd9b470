"""`lrq demo --ring`: its result, its errors, and no files or processes left behind."""

import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from lr_server.protocol.agreement.generations import RANKS
from lrq.demo.ring.places import MEMBERS, SINK
from tests.lrq.demo.conftest import Demonstrate
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

#: An environment without Java, in which Spark could not start.
NO_JAVA = {"JAVA_HOME": "/nowhere"}


def servers(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Return all processes below *process*, once each server of the demonstration runs; before that, an empty list."""
    found = psutil.Process(process.pid).children(recursive=True)
    return found if len(found) >= len((*MEMBERS, SINK)) else []


@pytest.mark.long
def test_each_acknowledged_entry_arrives_once_though_the_leader_is_killed(demonstrate: Demonstrate, temporary: Path):
    # The variable of a real site reaches no server of the demonstration.
    process = demonstrate("--ring", "--json", LRQ_DATABASE_URL="sqlite:////nowhere/real.db", **NO_JAVA)
    printed, told = process.communicate(timeout=380)
    assert process.returncode == 0, told
    (line,) = printed.splitlines()
    result = json.loads(line)
    assert result["ok"] is True
    entries = result["entries"]
    assert entries["acknowledged"] == entries["heard"] > 0
    assert (entries["missing"], entries["doubled"], entries["unexpected"]) == (0, 0, 0)
    assert entries["in_order"] is True
    assert result["files"]["alike"] is True
    assert len(result["files"]["ticks"]) == len(RANKS)
    # Rank 0 has led, then rank 1, then rank 0 again.
    assert result["generations"] >= 3
    assert result["longest_pause_seconds"] > 0
    assert "killed in the middle of its work (SIGKILL)" in told
    assert "Proved: each acknowledged entry is at tokyo exactly once" in told
    assert list(temporary.iterdir()) == []


def test_an_interrupted_ring_leaves_no_process_and_no_file(demonstrate: Demonstrate, temporary: Path):
    process = demonstrate("--ring", **NO_JAVA)
    started = eventually(lambda: servers(process), timeout=120)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    eventually(lambda: not any(child.is_running() for child in started))
    assert list(temporary.iterdir()) == []


def test_the_servers_end_when_the_demonstration_is_killed(demonstrate: Demonstrate):
    process = demonstrate("--ring", **NO_JAVA)
    started = eventually(lambda: servers(process), timeout=120)
    process.kill()
    process.communicate(timeout=120)
    try:
        eventually(lambda: not any(child.is_running() for child in started))
    finally:
        for child in started:
            with suppress(psutil.NoSuchProcess):
                child.kill()


def test_a_server_that_dies_by_itself_ends_the_demonstration_with_an_error(demonstrate: Demonstrate, temporary: Path):
    process = demonstrate("--ring", **NO_JAVA)
    (follower,) = [each for each in eventually(lambda: servers(process), timeout=120) if MEMBERS[2] in each.cmdline()]
    follower.kill()
    _, told = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "paris-2 ended by itself" in told
    assert list(temporary.iterdir()) == []


def test_databases_are_refused_for_a_ring(demonstrate: Demonstrate):
    process = demonstrate("--ring", "--databases", "sqlite:///{site}.db")
    _, told = process.communicate(timeout=120)
    assert (process.returncode, told) == (
        2, "lrq: --databases does not go with --ring: a ring keeps its log in SQLite files\n"
    )  # fmt: skip
