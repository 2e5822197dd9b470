"""A server that dozes is told of every commit it does not know, and nobody tells one that is awake."""

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from queues.errors import StoreUnavailableError
from queues.log.doorbell import Bell, ring
from queues.log.opening import LogWatch, watch_log
from queues.schema import require
from tests.log.test_commit_watch import transmit
from tests.waiting import eventually

on_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
#: Longer than anything here takes: who waits so long was not told.
_LONG = 30.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def bell() -> Iterator[Bell]:
    with closing(Bell("branch of this test")) as made:
        yield made


@pytest.fixture
def watch(site: Engine) -> Iterator[LogWatch]:
    with closing(watch_log(site)) as made:
        yield made


def doze(watch: LogWatch) -> None:
    assert watch.doze()
    look_until_nothing_changes(watch)


def look_until_nothing_changes(watch: LogWatch) -> None:
    while watch.changed():
        pass


def is_told(watch: LogWatch, bell: Bell) -> bool:
    """Tell without waiting: a notification is there when the commit that brings it has returned, or nearly."""
    return bell.wait(0.2, *watch.tellers)


@on_postgresql
def test_a_commit_wakes_who_dozes(site: Engine, watch: LogWatch, bell: Bell):
    doze(watch)
    with site.begin() as connection:
        transmit(connection)
        assert not is_told(watch, bell)
    assert bell.wait(_LONG, *watch.tellers)
    assert watch.changed()


@on_postgresql
def test_what_is_rolled_back_wakes_nobody(site: Engine, watch: LogWatch, bell: Bell):
    doze(watch)
    with site.connect() as connection, connection.begin() as transaction:
        transmit(connection)
        transaction.rollback()
    assert not is_told(watch, bell)


@on_postgresql
def test_nobody_tells_who_is_awake(site: Engine, watch: LogWatch, bell: Bell):
    doze(watch)
    awake = watch.tellers
    watch.wake()
    watch.wake()
    assert watch.tellers == []
    with site.begin() as connection:
        transmit(connection)
    assert not bell.wait(0.2, *awake)


@on_postgresql
def test_nobody_dozes_while_one_who_was_silent_may_still_commit(site: Engine, watch: LogWatch):
    assert watch.changed()
    with site.begin() as connection:
        transmit(connection)
        assert not watch.doze()
        assert not watch.dozes
    assert watch.doze()
    assert watch.changed()


@on_postgresql
def test_who_was_told_looks_again_though_nothing_is_seen_yet(site: Engine, watch: LogWatch, bell: Bell):
    doze(watch)
    with site.begin() as connection:
        connection.exec_driver_sql("SELECT pg_notify('lrq_transmitted', '')")
    assert bell.wait(_LONG, *watch.tellers)
    assert watch.changed()
    assert not watch.changed()


@on_postgresql
def test_a_transaction_in_two_phases_tells_nobody(site: Engine, watch: LogWatch, bell: Bell):
    doze(watch)
    with site.connect() as connection, connection.begin_twophase() as transaction:
        transmit(connection)
        transaction.commit()
    assert not is_told(watch, bell)
    assert watch.changed()


@on_postgresql
def test_who_begins_to_watch_ends_the_doze_of_an_earlier_server(site: Engine, watch: LogWatch, bell: Bell):
    doze(watch)
    with closing(watch_log(site)) as successor:
        # The earlier one's connection is told to end, and ends a moment later.
        eventually(successor.doze)
        look_until_nothing_changes(successor)
        with pytest.raises(StoreUnavailableError):
            watch.changed()
        assert not watch.dozes
        with site.begin() as connection:
            transmit(connection)
        assert bell.wait(_LONG, *successor.tellers)


@on_postgresql
def test_a_doze_ends_with_its_connection(site: Engine, watch: LogWatch, bell: Bell):
    doze(watch)
    watch.close()
    with closing(watch_log(site)) as other:
        look_until_nothing_changes(other)
        eventually(other.doze)


@on_postgresql
@pytest.mark.parametrize("number", range(3))
def test_no_commit_is_slept_through(site: Engine, watch: LogWatch, bell: Bell, chance: random.Random, number: int):
    """Whoever dozes after each look finds what others commit meanwhile, without ever waiting in vain."""
    committed = 0
    guard = threading.Lock()
    pauses = [[chance.choice([0.0, 0.0, 0.001, 0.01]) for _ in range(40)] for _ in range(3)]

    def work(mine: list[float]) -> None:
        nonlocal committed
        for pause in mine:
            with site.begin() as connection:
                transmit(connection)
                threading.Event().wait(pause)
            with guard:
                committed += 1
            threading.Event().wait(pause)

    def seen() -> int:
        with site.connect() as connection:
            return connection.exec_driver_sql("SELECT count(*) FROM lrq_log_entries").scalar_one()

    workers = [threading.Thread(target=work, args=(mine,)) for mine in pauses]
    for worker in workers:
        worker.start()
    found = 0
    while found < 3 * 40:
        while watch.changed():
            found = seen()
        if found == 3 * 40:
            break
        if watch.dozes:
            assert bell.wait(_LONG, *watch.tellers), f"slept while {committed} were committed and {found} were found"
            if chance.random() < 0.5:
                watch.wake()
        elif not watch.doze():
            bell.wait(0.001)
    for worker in workers:
        worker.join()


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_on_sqlite_nobody_can_be_told(watch: LogWatch):
    assert not watch.doze()
    assert (watch.dozes, list(watch.tellers)) == (False, [])
    watch.wake()


def test_a_bell_that_was_rung_before_does_not_wait(bell: Bell):
    bell.ring()
    bell.ring()
    assert bell.wait(_LONG)
    assert not bell.wait(0.0)


def test_every_ring_is_heard(bell: Bell):
    for _ in range(200):
        ringing = threading.Thread(target=bell.ring)
        ringing.start()
        assert bell.wait(_LONG)
        ringing.join()


def test_a_bell_that_many_ring_at_once_is_heard_afterwards(bell: Bell):
    over = threading.Event()

    def keep_ringing() -> None:
        while not over.is_set():
            bell.ring()

    ringers = [threading.Thread(target=keep_ringing) for _ in range(3)]
    for ringer in ringers:
        ringer.start()
    try:
        for _ in range(100):
            assert bell.wait(1.0)
    finally:
        over.set()
        for ringer in ringers:
            ringer.join()
    while bell.wait(0.0):
        pass
    bell.ring()
    assert bell.wait(_LONG)


def test_all_bells_of_a_branch_ring_and_a_closed_one_is_silent():
    first, second = Bell("same"), Bell("same")
    first.close()
    with closing(second):
        ring("same")
        assert second.wait(_LONG)


_TRANSMIT = """
import sys
from queues import create_engine
from tests.log.test_commit_watch import transmit
with create_engine(sys.argv[1]).begin() as connection:
    transmit(connection)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the server looks by itself")
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_another_process_wakes_the_server_of_a_file(site: Engine):
    with closing(Bell(require(site).branch)) as bell:
        with site.begin() as connection:
            transmit(connection)
        assert not bell.wait(0.0), "in its own process the sender rings"
        url = site.url.render_as_string(hide_password=False)
        subprocess.run([sys.executable, "-c", _TRANSMIT, url], check=True, cwd=ROOT)
        assert bell.wait(_LONG)
        assert not bell.wait(0.0)


def test_a_second_server_of_a_branch_has_to_look_by_itself(bell: Bell):
    with closing(Bell("branch of this test")) as second:
        second.ring()
        assert second.wait(_LONG)
        assert not bell.wait(0.0)
