"""Later calls of a transaction rely on what its first one found out: never on what was undone since."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.engine import NestedTransaction

import queues
from lr_client.sender import RoutingQueueSenderClient
from queues import leases
from queues.log.doorbell import Bell
from queues.log.opening import watch_log
from queues.tables import tag_sets
from tests.log.reading import Reader

client = RoutingQueueSenderClient("policy")
KNOWN = ["tokyo"]
on_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


@pytest.fixture
def knowing(site: Engine, reader: Reader) -> Engine:
    """Give a site whose dictionary keeps the set `KNOWN` for ever: only then is there anything to rely on."""
    for _ in range(2):
        with site.begin() as connection:
            client.transmit_log_entry_message(connection, b"first of all", KNOWN)
        reader.drain()
    with site.connect() as connection:
        assert connection.execute(select(tag_sets.c.shared)).scalars().all() == [True]
    return site


class Writer:
    """Plays steps in transactions, and knows what must come of them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.committed: list[bytes] = []
        self._written: list[bytes] = []
        # What had been written when a savepoint was made; how it is undone.
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
def test_what_is_committed_is_what_arrives_whatever_was_undone(knowing: Engine, reader: Reader, steps: list[str]):
    with knowing.connect() as connection:
        writer = Writer(connection)
        for step in [*steps, "commit"]:
            writer.play(step)
    assert [row.payload for row in reader.drain()] == writer.committed


def test_each_transaction_of_a_connection_has_a_token_of_its_own(knowing: Engine):
    tokens = []
    with knowing.connect() as connection:
        for _ in range(3):
            written = {client.transmit_log_entry_message(connection, b"", KNOWN).transaction for _ in range(3)}
            connection.commit()
            tokens.append(max(written))
    assert tokens == sorted(set(tokens))


@pytest.fixture
def bell() -> Iterator[Bell]:
    with closing(Bell("branch of this test")) as made:
        yield made


@on_postgresql
def test_a_server_that_dozes_is_told_after_a_savepoint_took_the_news_back(knowing: Engine, bell: Bell):
    with closing(watch_log(knowing)) as watch:
        assert watch.doze()
        while watch.changed():
            pass
        with knowing.begin() as connection:
            savepoint = connection.begin_nested()
            client.transmit_log_entry_message(connection, b"undone", KNOWN)
            savepoint.rollback()
            client.transmit_log_entry_message(connection, b"kept", KNOWN)
        assert bell.wait(30, *watch.tellers)


@on_postgresql
def test_a_search_path_that_changes_between_two_calls_leads_the_second_elsewhere(knowing: Engine, reader: Reader):
    with knowing.begin() as connection:
        connection.execute(text("CREATE SCHEMA other"))
    there = queues.create_engine(knowing.url, connect_args={"options": "-csearch_path=other"})
    queues.initialize(there, site_id="lima")
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
