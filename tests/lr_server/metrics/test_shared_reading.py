"""Calls of one moment share one reading."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lr_server.metrics.shared_reading import SharedReading
from tests.waiting import eventually


def test_a_call_during_a_reading_gets_the_result_of_that_reading():
    begun, go_on, readings = threading.Event(), threading.Event(), []

    def read() -> int:
        readings.append(1)
        begun.set()
        assert go_on.wait(60)
        return len(readings)

    shared = SharedReading(read, patience=60.0)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(shared.get)
        assert begun.wait(60)
        second = pool.submit(shared.get)
        eventually(lambda: shared.waiting == 1)
        go_on.set()
        assert [first.result(), second.result()] == [1, 1]
    assert shared.get() == 2


def test_a_call_gets_none_if_the_reading_of_another_one_fails():
    begun, go_on = threading.Event(), threading.Event()

    def read() -> int:
        begun.set()
        assert go_on.wait(60)
        raise ValueError("no answer")

    shared = SharedReading(read, patience=60.0)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(shared.get)
        assert begun.wait(60)
        second = pool.submit(shared.get)
        eventually(lambda: shared.waiting == 1)
        go_on.set()
        assert second.result() is None
        with pytest.raises(ValueError, match="no answer"):
            first.result()
