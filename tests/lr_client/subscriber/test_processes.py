"""Subscribers as processes that are killed, stopped and revived: each entry is applied once."""

import os
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine

from queues.database import leases, tables
from queues.database.transactions import reading
from tests.faults.standing_still import stop_process
from tests.forked import Popen
from tests.lr_client.subscriber.applying import payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.waiting import eventually

pytestmark = pytest.mark.processes

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(sink: Engine) -> Iterator[Start]:
    """Give a function that starts a subscriber; all subscribers are killed at the end."""
    made: list[subprocess.Popen[str]] = []
    url = sink.url.render_as_string(hide_password=False)

    def begin(*options: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tests.lr_client.subscriber.consumer_process", url, *options]
        made.append(Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert made[-1].stdout.readline() == "subscribed\n"
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.communicate()


def says(process: "subprocess.Popen[str]", word: str) -> str:
    """Return the next line of *process* that contains *word*."""
    return next(line for line in process.stdout if word in line)


def expiry(engine: Engine) -> int:
    with reading(engine) as connection:
        return connection.execute(tables.servers.leases.select()).one().expires_us


def test_a_subscriber_killed_at_any_moment_applies_each_entry_once(sink: Engine, tokyo: Arrivals, start: Start) -> None:
    seed = int(os.environ.get("LRQ_SEED", secrets.randbits(32)))
    print(f"LRQ_SEED={seed}")
    chance = random.Random(seed)
    tokyo.snapshot("s1", payloads("r", 40))
    for n in range(40):
        tokyo.tick(payloads(f"t{n}-", 3))
    whole = ["<start>", *texts("r", 40), "<complete>", *[text for n in range(40) for text in texts(f"t{n}-", 3)]]
    for moment in sorted(chance.sample(range(len(whole)), 6)):
        process = start()
        eventually(lambda moment=moment: len(story(sink)) >= moment, interval=0.001)
        process.kill()
        process.wait()
    start()
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == whole


def test_a_paused_subscriber_notices_that_it_was_replaced(sink: Engine, tokyo: Arrivals, start: Start) -> None:
    stale = start()
    tokyo.tick([b"e1"])
    eventually(lambda: tokyo.left == 0)
    # Right after a renewal the subscriber holds no lock of the database.
    renewed = expiry(sink)
    eventually(lambda: expiry(sink) > renewed, interval=0.001)
    stop_process(stale.pid)
    successor = start()
    tokyo.tick([b"e2"])
    eventually(lambda: tokyo.left == 0)
    stale.send_signal(signal.SIGCONT)
    assert "was taken over by generation 2" in says(stale, "OwnershipLostError")
    tokyo.tick([b"e3"])
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2", "e3"]
    assert successor.poll() is None


def test_a_subscriber_paused_in_the_middle_of_a_call_does_not_block_its_successor(
    sink: Engine, tokyo: Arrivals, dialect: str, start: Start
) -> None:
    if dialect == "sqlite":
        pytest.skip("no process can end another one's transaction on SQLite")
    tokyo.tick([b"e1"])
    stale = start("hold")
    says(stale, "inside")
    stop_process(stale.pid)
    start()
    eventually(lambda: tokyo.left == 0)
    stale.send_signal(signal.SIGCONT)
    stale.stdin.write("go on\n")
    stale.stdin.flush()
    says(stale, "OwnershipLostError")
    assert story(sink) == ["e1"]


def test_a_killed_subscriber_is_replaced_before_its_lease_expires(sink: Engine, tokyo: Arrivals, start: Start) -> None:
    process = start()
    tokyo.tick([b"e1"])
    eventually(lambda: tokyo.left == 0)
    process.kill()
    process.wait()
    with sink.begin() as connection:
        connection.execute(tables.servers.leases.update().values(expires_us=2**62))
    start()
    tokyo.tick([b"e2"])
    eventually(lambda: tokyo.left == 0)
    assert leases.holder(sink, "subscriber/policy").lease.generation == 2
