"""Producers after the end of the main thread, where Python 3.12.1 starts no thread any more."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lr_client.producer import AsyncProducer, Producer
from queues.errors import PeerUnreachableError, UsageError
from queues.thread_lack import PYTHON_ENDS
from tests.forked import ROOT
from tests.lr_client.producer.small_server import SmallServer
from tests.threads_refused import ENDING, OF_GRPC, no_further_thread

#: Longer than the time limit of a test, so that only an outcome ends the wait.
LONG = 1000


@pytest.fixture
def threaded(server: SmallServer) -> Producer:
    return Producer(server.endpoint, client="meters", producer="meter-17")


def test_a_first_request_is_refused(server: SmallServer, threaded: Producer) -> None:
    with no_further_thread("lrq-producer", words=ENDING), pytest.raises(UsageError) as caught:
        threaded.send([(b"1", ["tokyo"])])
    assert str(caught.value) == PYTHON_ENDS
    threaded.close()
    assert server.log.payloads() == []


def test_a_request_without_a_connection_ends_at_once(
    server: SmallServer, new_producer: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    producer = new_producer(server.endpoint)
    with no_further_thread("lrq-grpc-room", words=ENDING):
        for _ in range(2):
            with pytest.raises(PeerUnreachableError) as caught:
                producer.send([(b"1", ["tokyo"])], timeout=LONG)
            assert str(caught.value).endswith(PYTHON_ENDS)
        producer.close(LONG)
    assert PYTHON_ENDS in caplog.text
    assert server.log.payloads() == []


def test_a_close_waits_for_no_request_without_a_connection(server: SmallServer) -> None:
    async def closed() -> None:
        producer = AsyncProducer(server.endpoint, client="meters", producer="meter-17")
        future = await producer.submit([(b"1", ["tokyo"])], timeout=LONG)
        await producer.close(LONG)
        with pytest.raises(PeerUnreachableError, match="Python ends"):
            await future

    with no_further_thread("lrq-grpc-room", words=ENDING):
        asyncio.run(closed())


def test_a_request_ends_whose_call_lacks_a_thread_of_grpc(threaded: Producer) -> None:
    with no_further_thread(OF_GRPC, words=ENDING), pytest.raises(PeerUnreachableError) as caught:
        threaded.send([(b"1", ["tokyo"])], timeout=LONG)
    assert str(caught.value).endswith(PYTHON_ENDS)
    threaded.close(LONG)


AT_THE_END = """
import atexit, sys
import lrq

producer = lrq.Producer("tcp://127.0.0.1:1", client="meters", producer="meter-17")

def send():
    try:
        producer.send([(b"1", ["tokyo"])], timeout=0.2)
    except lrq.LrqError as error:
        sys.stdout.write(type(error).__name__)
    producer.close()
"""


def printed(code: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    return run.stdout + run.stderr


@pytest.mark.processes
def test_a_request_of_a_function_of_atexit_has_an_error_of_lrq() -> None:
    told = printed(f"{AT_THE_END}\natexit.register(send)")
    assert told in ("UsageError", "PeerUnreachableError")


@pytest.mark.processes
def test_a_process_ends_whose_call_has_lacked_a_thread_of_grpc() -> None:
    refused = f"from tests.threads_refused import no_further_thread\nwith no_further_thread({OF_GRPC!r}): send()"
    assert printed(f"{AT_THE_END}\n{refused}") == "PeerUnreachableError"
