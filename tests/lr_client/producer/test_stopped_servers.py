"""A server that stands still keeps its connections, so only silence tells of it."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.faults.standing_still import stop_process
from tests.forked import Popen


@pytest.fixture
def process() -> Iterator["subprocess.Popen[str]"]:
    """Give a process with a small server; its first line is the endpoint."""
    command = [sys.executable, "-m", "tests.lr_client.producer.small_server"]
    with Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        yield made
        made.send_signal(signal.SIGCONT)


def test_a_producer_goes_on_at_another_server_while_its_server_stands_still(
    process: "subprocess.Popen[str]", new_server: Callable[..., Any], new_producer: Callable[..., Any]
):
    assert process.stdout is not None
    other = new_server()
    producer = new_producer(f"{process.stdout.readline().strip()},{other.endpoint}")
    assert producer.last_sequence() == 0
    stop_process(process.pid)
    # Without a limit for the answer to a ping, gRPC ends the connection after more than a minute.
    producer.send([(b"1", ["tokyo"])], timeout=50)
    assert other.log.payloads() == [b"1"]
