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
        eventually(lambda: shared.waiting == 2)
        go_on.set()
        assert [first.result(), second.result()] == [1, 1]
    assert shared.get() == 2


def test_each_call_gets_the_error_of_the_reading():
    begun, go_on = threading.Event(), threading.Event()

    def read() -> int:
        begun.set()
        assert go_on.wait(60)
        raise ValueError("no answer")

    shared = SharedReading(read, patience=60.0)
    with ThreadPoolExecutor() as pool:
        calls = [pool.submit(shared.get) for _ in range(2)]
        assert begun.wait(60)
        eventually(lambda: shared.waiting == 2)
        go_on.set()
        for call in calls:
            with pytest.raises(ValueError, match="no answer"):
                call.result()


def test_no_call_waits_for_a_reading_without_an_end_and_none_begins_another_one():
    go_on, readings = threading.Event(), []

    def read() -> int:
        readings.append(1)
        assert go_on.wait(60)
        return 7

    shared = SharedReading(read, patience=0.01)
    assert [shared.get(), shared.get()] == [None, None]
    assert readings == [1]
    go_on.set()
    eventually(lambda: shared.get() == 7)
