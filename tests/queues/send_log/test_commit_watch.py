"""Noticing new commits: no commit of entries is missed, and other commits cause no look."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, create_engine, text

from queues.database.postgresql.autocommit import held_connection
from queues.destinations import destination_set
from queues.errors import StoreUnavailableError
from queues.names import ClientName
from queues.positions import PgSnapshot
from queues.send_log.opening import CommitWatch, outbox, watch_commits, watch_log
from queues.send_log.outbox import NewEntry
from queues.send_log.postgresql import commit_watch
from queues.send_log.postgresql.commit_watch import Numbers, PostgresqlLogWatch

CLIENT = ClientName("policy")


class Database:
    """Transactions that begin, take commit numbers and end, and a look's view of them."""

    def __init__(self) -> None:
        self.xmax = 10
        self.number = 0
        self.running: dict[int, bool] = {}  # whether the transaction has taken a number
        self.unseen = 0
        self.ended = 9

    def do(self, what: str, which: int) -> None:
        without = sorted(xid for xid, numbered in self.running.items() if not numbered)
        match what:
            case "begin":
                self.running[self.xmax] = False
                self.xmax += 1
            case "number" if without:
                self.running[without[which % len(without)]] = True
                self.number += 1
            case "end" if self.running:
                xid = sorted(self.running)[which % len(self.running)]
                self.unseen += self.running.pop(xid)
                self.ended = max(self.ended, xid)

    def snapshot(self) -> PgSnapshot:
        """Return PostgreSQL's view: transactions that began after the newest ended one are not listed."""
        xmax = self.ended + 1
        running = frozenset(xid for xid in self.running if xid < xmax)
        return PgSnapshot(min(running, default=xmax), xmax, running)

    def bound(self) -> int:
        self.do("begin", 0)
        self.ended = self.xmax - 1
        del self.running[self.ended]
        return self.ended


_STEPS = st.lists(st.tuples(st.sampled_from(["begin", "number", "end", "look"]), st.integers(0, 9)), max_size=60)


@given(_STEPS, st.data())
def test_no_commit_is_missed_by_the_next_look(steps: list[tuple[str, int]], data: st.DataObject):
    database, numbers = Database(), Numbers()
    for what, which in steps:
        if what != "look":
            database.do(what, which)
            continue
        snapshot, ended = database.snapshot(), database.unseen
        for meanwhile, other in data.draw(_STEPS.map(lambda drawn: drawn[:4])):  # happens before the number is read
            database.do(meanwhile, other)
        if numbers.look(database.number, snapshot):
            database.unseen = 0
        else:
            assert not ended
        if numbers.wants_bound:
            numbers.set_bound(database.bound())
    for _ in range(3):
        if numbers.look(database.number, database.snapshot()):
            database.unseen = 0
        if numbers.wants_bound:
            numbers.set_bound(database.bound())
    assert not database.unseen


def test_a_look_is_needless_once_no_running_transaction_can_have_a_number():
    numbers = Numbers()
    assert numbers.look(7, PgSnapshot(3, 9, frozenset({3, 5})))
    assert not numbers.wants_bound
    assert numbers.look(7, PgSnapshot(3, 9, frozenset({3, 5})))
    assert numbers.wants_bound
    numbers.set_bound(11)
    looks = [
        (7, PgSnapshot(3, 20, frozenset({3, 10, 12}))),
        (7, PgSnapshot(3, 20, frozenset({3, 10, 14}))),
        (7, PgSnapshot(10, 30, frozenset({10, 22}))),
        (7, PgSnapshot(40, 40, frozenset())),
        (7, PgSnapshot(41, 50, frozenset({41}))),
        (8, PgSnapshot(60, 60, frozenset())),
    ]
    assert [numbers.look(*look) for look in looks] == [True, False, True, True, False, True]


def transmit(connection: Connection, payload: bytes = b"one") -> None:
    outbox(connection)(connection, CLIENT, [NewEntry(payload, destination_set(CLIENT, ["tokyo"]))], 1)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_only_commits_of_entries_cause_a_look(site: Engine):
    watch = watch_log(site)
    with site.connect() as connection, connection.begin():
        transmit(connection)
        connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))  # takes the number
        while watch.changed():
            pass
        with site.begin() as other:
            other.execute(text("UPDATE lrq_log_head SET last_id = last_id"))
        assert not watch.changed()
    assert watch.changed()
    while watch.changed():
        pass
    watch.close()
    assert watch.changed()
    watch.close()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("watching", [watch_commits, watch_log])
def test_a_connection_that_is_lost_right_after_its_begin_is_told_as_such_and_tried_again(
    site: Engine, watching: Callable[[Engine], CommitWatch], monkeypatch: pytest.MonkeyPatch
):
    def lost(engine: Engine) -> Connection:
        connection = held_connection(engine)
        driver: Any = connection.connection.dbapi_connection
        # A server that is killed says nothing either.
        with socket.socket(fileno=os.dup(driver.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        assert driver.pgconn.exec_(b"SELECT 1").error_message
        return connection

    watch = watching(site)
    with monkeypatch.context() as patch:
        patch.setattr(commit_watch, "held_connection", lost)
        with pytest.raises(StoreUnavailableError):
            watch.changed()
    assert watch.changed()
    watch.close()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_connection_that_is_lost_between_a_look_and_its_notifications_is_told_as_such(
    site: Engine, monkeypatch: pytest.MonkeyPatch
):
    watch = watch_log(site)
    assert isinstance(watch, PostgresqlLogWatch)
    assert watch.changed()

    def lost(*_: object) -> bool:
        with socket.socket(fileno=os.dup(watch.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Numbers, "look", lost)
        with pytest.raises(StoreUnavailableError):
            watch.changed()
    assert watch.changed()
    watch.close()


def test_a_file_that_cannot_be_opened_is_tried_again(tmp_path: Path):
    engine = create_engine(f"sqlite:///{tmp_path}/later/site.db")
    watch = watch_commits(engine)
    with pytest.raises(StoreUnavailableError, match="does not exist: create it"):
        watch.changed()
    (tmp_path / "later").mkdir()
    assert watch.changed()
    watch.close()
    engine.dispose()
