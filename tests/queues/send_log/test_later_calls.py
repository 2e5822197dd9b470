"""Later calls of a transaction reuse the findings of its first call, but none that a savepoint has undone."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.engine import NestedTransaction

import queues
from lr_client.sender import RoutingQueueSenderClient
from queues.database import leases
from queues.database.tables.destinations import tag_sets
from queues.errors import DataLossError
from queues.send_log.opening import open_log, watch_log
from queues.send_log.wakeup import Wakeup
from tests.queues.reading import Reader

client = RoutingQueueSenderClient("policy")
KNOWN = ["tokyo"]
on_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


@pytest.fixture
def knowing(site: Engine, reader: Reader) -> Engine:
    """Give a site whose dictionary keeps the set `KNOWN` for ever: only such a set can be reused."""
    for _ in range(2):
        with site.begin() as connection:
            client.transmit_log_entry_message(connection, b"first of all", KNOWN)
        reader.drain()
    with site.connect() as connection:
        assert connection.execute(select(tag_sets.c.shared)).scalars().all() == [True]
    return site


class Writer:
    """Carries out steps in transactions and records the payloads that must arrive."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.committed: list[bytes] = []
        self._written: list[bytes] = []
        # For each savepoint: the number of payloads written before it, and the handle that ends it.
        self._savepoints: list[tuple[int, NestedTransaction | str]] = []
        self._number = 0

    def play(self, step: str) -> None:
        getattr(self, step)()

    def _transmit(self, destinations: list[str]) -> None:
        self._number += 1
        payload = str(self._number).encode()
        client.transmit_log_entry_message(self.connection, payload, destinations)
        self._written.append(payload)

    def known(self) -> None:
        self._transmit(KNOWN)

    def unknown(self) -> None:
        self._transmit(["tokyo", f"site-{self._number}"])

    def savepoint(self) -> None:
        self._savepoints.append((len(self._written), self.connection.begin_nested()))

    def raw_savepoint(self) -> None:
        name = f"s{len(self._savepoints)}"
        self.connection.execute(text(f"SAVEPOINT {name}"))
        self._savepoints.append((len(self._written), name))

    def undo(self) -> None:
        if self._savepoints:
            del self._written[self._savepoints[-1][0] :]
            self._end("ROLLBACK TO SAVEPOINT", NestedTransaction.rollback)

    def release(self) -> None:
        if self._savepoints:
            self._end("RELEASE SAVEPOINT", NestedTransaction.commit)

    def _end(self, raw: str, how: Callable[[NestedTransaction], None]) -> None:
        _, savepoint = self._savepoints.pop()
        if isinstance(savepoint, str):
            self.connection.execute(text(f"{raw} {savepoint}"))
        else:
            how(savepoint)

    def commit(self) -> None:
        while self._savepoints:
            self.release()
        self.connection.commit()
        self.committed += self._written
        self._written.clear()

    def rollback(self) -> None:
        self.connection.rollback()
        self._written.clear()
        self._savepoints.clear()


STEPS = ["known", "known", "known", "unknown", "savepoint", "raw_savepoint", "undo", "release", "commit", "rollback"]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.sampled_from(STEPS), max_size=30))
def test_exactly_the_committed_entries_arrive_after_any_savepoints(knowing: Engine, reader: Reader, steps: list[str]):
    with knowing.connect() as connection:
        writer = Writer(connection)
        for step in [*steps, "commit"]:
            writer.play(step)
    assert [row.payload for row in reader.drain()] == writer.committed


def test_each_transaction_of_a_connection_has_its_own_token(knowing: Engine):
    tokens = []
    with knowing.connect() as connection:
        for _ in range(3):
            written = {client.transmit_log_entry_message(connection, b"", KNOWN).transaction for _ in range(3)}
            connection.commit()
            tokens.append(max(written))
    assert tokens == sorted(set(tokens))


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    with closing(Wakeup("branch of this test")) as made:
        yield made


@on_postgresql
def test_a_waiting_server_is_notified_though_a_savepoint_undid_the_first_notification(knowing: Engine, wakeup: Wakeup):
    with closing(watch_log(knowing)) as watch:
        assert watch.wait_for_notify()
        while watch.changed():
            pass
        with knowing.begin() as connection:
            savepoint = connection.begin_nested()
            client.transmit_log_entry_message(connection, b"undone", KNOWN)
            savepoint.rollback()
            client.transmit_log_entry_message(connection, b"kept", KNOWN)
        assert wakeup.wait(30, *watch.notifiers)


@on_postgresql
def test_a_changed_search_path_leads_the_next_call_to_the_other_site(knowing: Engine, reader: Reader):
    with knowing.begin() as connection:
        connection.execute(text("CREATE SCHEMA other"))
    there = queues.create_engine(knowing.url, connect_args={"options": "-csearch_path=other"})
    queues.initialize(there, site_id="lima", schema="other")
    with knowing.begin() as connection:
        here = client.transmit_log_entry_message(connection, b"here", KNOWN)
        connection.execute(text("SET LOCAL search_path = other"))
        elsewhere = client.transmit_log_entry_message(connection, b"elsewhere", KNOWN)
        connection.execute(text("SET LOCAL search_path = public"))
        client.transmit_log_entry_message(connection, b"here again", KNOWN)
    lease = leases.acquire(there, "server", "me", ttl=60)
    assert lease is not None
    assert [row.payload for row in reader.drain()] == [b"here", b"here again"]
    assert [row.payload for row in Reader(there, lease).drain()] == [b"elsewhere"]
    assert (here.site, elsewhere.site) == ("paris", "lima")
    there.dispose()


def test_a_missing_destination_set_raises_an_error_for_lost_data(knowing: Engine, reader: Reader) -> None:
    with knowing.begin() as connection:
        client.transmit_log_entry_message(connection, b"finds the set", KNOWN)
        client.transmit_log_entry_message(connection, b"carries its number alone", KNOWN)
        connection.execute(tag_sets.delete())
    lost = pytest.raises(DataLossError, match=r"is lost: .* restore lrq_tag_sets and lrq_tag_set_members")
    with closing(open_log(knowing)) as log, lost:
        log.take_tick(reader.lease, reader.last)
