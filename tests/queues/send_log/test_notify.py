"""A waiting server is notified of each new commit; transactions send no NOTIFY while the server is awake."""

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from queues.database.schema import require
from queues.errors import StoreUnavailableError
from queues.send_log.opening import LogWatch, watch_log
from queues.send_log.wakeup import Wakeup, wake_server
from tests.queues.send_log.test_commit_watch import transmit
from tests.waiting import eventually

pytestmark = pytest.mark.long

on_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
#: Longer than any notification takes: a wait of this length means that none came.
_LONG = 30.0
ROOT = Path(__file__).parents[3]


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    with closing(Wakeup("branch of this test")) as made:
        yield made


@pytest.fixture
def watch(site: Engine) -> Iterator[LogWatch]:
    with closing(watch_log(site)) as made:
        yield made


def wait_for_notify(watch: LogWatch) -> None:
    assert watch.wait_for_notify()
    look_until_nothing_changes(watch)


def look_until_nothing_changes(watch: LogWatch) -> None:
    while watch.changed():
        pass


def is_told(watch: LogWatch, wakeup: Wakeup) -> bool:
    """Return whether a notification came; at most 0.2 seconds pass after the commit that sends one."""
    return wakeup.wait(0.2, *watch.notifiers)


@on_postgresql
def test_a_commit_wakes_a_waiting_server(site: Engine, watch: LogWatch, wakeup: Wakeup):
    wait_for_notify(watch)
    with site.begin() as connection:
        transmit(connection)
        assert not is_told(watch, wakeup)
    assert wakeup.wait(_LONG, *watch.notifiers)
    assert watch.changed()


@on_postgresql
def test_a_rolled_back_transaction_wakes_no_server(site: Engine, watch: LogWatch, wakeup: Wakeup):
    wait_for_notify(watch)
    with site.connect() as connection, connection.begin() as transaction:
        transmit(connection)
        transaction.rollback()
    assert not is_told(watch, wakeup)


@on_postgresql
def test_no_notify_is_sent_while_the_server_is_awake(site: Engine, watch: LogWatch, wakeup: Wakeup):
    wait_for_notify(watch)
    awake = watch.notifiers
    watch.end_notify()
    watch.end_notify()
    assert watch.notifiers == []
    with site.begin() as connection:
        transmit(connection)
    assert not wakeup.wait(0.2, *awake)


@on_postgresql
def test_the_server_does_not_wait_while_a_transaction_without_notify_may_still_commit(site: Engine, watch: LogWatch):
    assert watch.changed()
    with site.begin() as connection:
        transmit(connection)
        assert not watch.wait_for_notify()
        assert not watch.is_notified
    assert watch.wait_for_notify()
    assert watch.changed()


@on_postgresql
def test_a_notified_server_looks_again_though_no_commit_is_visible(site: Engine, watch: LogWatch, wakeup: Wakeup):
    wait_for_notify(watch)
    with site.begin() as connection:
        connection.exec_driver_sql("SELECT pg_notify('lrq_transmitted', '')")
    assert wakeup.wait(_LONG, *watch.notifiers)
    assert watch.changed()
    assert not watch.changed()


@on_postgresql
def test_a_two_phase_transaction_sends_no_notify(site: Engine, watch: LogWatch, wakeup: Wakeup):
    wait_for_notify(watch)
    with site.connect() as connection, connection.begin_twophase() as transaction:
        transmit(connection)
        transaction.commit()
    assert not is_told(watch, wakeup)
    assert watch.changed()


@on_postgresql
def test_a_new_watch_ends_the_wait_of_an_earlier_server(site: Engine, watch: LogWatch, wakeup: Wakeup):
    wait_for_notify(watch)
    with closing(watch_log(site)) as successor:
        # The connection of the earlier server ends a moment after the order to end.
        eventually(successor.wait_for_notify)
        look_until_nothing_changes(successor)
        with pytest.raises(StoreUnavailableError):
            watch.changed()
        assert not watch.is_notified
        with site.begin() as connection:
            transmit(connection)
        assert wakeup.wait(_LONG, *successor.notifiers)


@on_postgresql
def test_a_closed_watch_no_longer_waits(site: Engine, watch: LogWatch, wakeup: Wakeup):
    wait_for_notify(watch)
    watch.close()
    with closing(watch_log(site)) as other:
        look_until_nothing_changes(other)
        eventually(other.wait_for_notify)


@on_postgresql
@pytest.mark.parametrize("number", range(3))
def test_a_waiting_server_misses_no_commit(
    site: Engine, watch: LogWatch, wakeup: Wakeup, chance: random.Random, number: int
):
    """A server that waits for NOTIFY after each look finds all commits of other transactions."""
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
        if watch.is_notified:
            assert wakeup.wait(_LONG, *watch.notifiers), (
                f"slept while {committed} were committed and {found} were found"
            )
            if chance.random() < 0.5:
                watch.end_notify()
        elif not watch.wait_for_notify():
            wakeup.wait(0.001)
    for worker in workers:
        worker.join()


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_sqlite_has_no_notify(watch: LogWatch):
    assert not watch.wait_for_notify()
    assert (watch.is_notified, list(watch.notifiers)) == (False, [])
    watch.end_notify()


def test_a_wait_returns_at_once_after_an_earlier_notification(wakeup: Wakeup):
    wakeup.notify()
    wakeup.notify()
    assert wakeup.wait(_LONG)
    assert not wakeup.wait(0.0)


def test_every_notification_ends_a_wait(wakeup: Wakeup):
    for _ in range(200):
        ringing = threading.Thread(target=wakeup.notify)
        ringing.start()
        assert wakeup.wait(_LONG)
        ringing.join()


def test_a_wakeup_works_after_many_simultaneous_notifications(wakeup: Wakeup):
    over = threading.Event()

    def keep_ringing() -> None:
        while not over.is_set():
            wakeup.notify()

    ringers = [threading.Thread(target=keep_ringing) for _ in range(3)]
    for ringer in ringers:
        ringer.start()
    try:
        for _ in range(100):
            assert wakeup.wait(_LONG)
    finally:
        over.set()
        for ringer in ringers:
            ringer.join()
    while wakeup.wait(0.0):
        pass
    wakeup.notify()
    assert wakeup.wait(_LONG)


def test_all_open_wakeups_of_a_branch_are_notified_and_a_closed_one_is_not():
    first, second = Wakeup("same"), Wakeup("same")
    first.close()
    with closing(second):
        wake_server("same")
        assert second.wait(_LONG)


_TRANSMIT = """
import sys
from queues import create_engine
from tests.queues.send_log.test_commit_watch import transmit
with create_engine(sys.argv[1]).begin() as connection:
    transmit(connection)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the server looks by itself")
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_another_process_wakes_the_server_of_a_file(site: Engine):
    with closing(Wakeup(require(site).branch)) as wakeup:
        with site.begin() as connection:
            transmit(connection)
        assert not wakeup.wait(0.0), "in its own process the sender rings"
        url = site.url.render_as_string(hide_password=False)
        subprocess.run([sys.executable, "-c", _TRANSMIT, url], check=True, cwd=ROOT)
        assert wakeup.wait(_LONG)
        assert not wakeup.wait(0.0)


def test_a_second_server_of_a_branch_is_notified_only_in_its_own_process(wakeup: Wakeup):
    with closing(Wakeup("branch of this test")) as second:
        second.notify()
        assert second.wait(_LONG)
        assert not wakeup.wait(0.0)
