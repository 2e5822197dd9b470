"""The registry lists the receive queues of a client; polling finds new ones."""

import concurrent.futures.thread
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, insert, text

from discovery import registry
from discovery.polling import RegistryPoller
from discovery.registry import ReceiveQueue
from queues import names
from queues.database import tables
from queues.database.transactions import reading, writing
from queues.errors import NotInitializedError
from tests.waiting import eventually


def announce(engine: Engine, client: str, source: str) -> None:
    name = names.receive_queue(names.client_name(client), names.site_id(source))
    values = {"name": name, "client": client, "source": source, "tag": names.receive_tag(client), "registered_us": 0}
    with writing(engine) as connection:
        connection.execute(insert(tables.receive.receive_queues).values(**values))


class Found:
    """Records the queues and errors that a poller reports."""

    def __init__(self) -> None:
        self.queues: list[ReceiveQueue] = []
        self.errors: list[Exception] = []

    @property
    def sources(self) -> list[str]:
        return [queue.source for queue in self.queues]


@pytest.fixture
def found() -> Found:
    return Found()


@pytest.fixture
def poller(site: Engine, found: Found) -> Iterator[RegistryPoller]:
    one = RegistryPoller(
        site, names.client_name("policy"), interval=0.05, on_found=found.queues.append, on_error=found.errors.append
    )
    yield one
    one.stop()


def test_a_client_finds_its_own_queues_only(site: Engine) -> None:
    announce(site, "policy", "tokyo")
    announce(site, "policy_v2", "tokyo")
    announce(site, "policy", "v2_tokyo")
    with reading(site) as connection:
        queues = registry.find(connection, names.client_name("policy"))
    assert [(queue.client, queue.source) for queue in queues] == [("policy", "tokyo"), ("policy", "v2_tokyo")]


def test_start_reports_the_existing_queues_before_it_returns(
    site: Engine, poller: RegistryPoller, found: Found
) -> None:
    announce(site, "policy", "tokyo")
    poller.start()
    assert found.sources == ["tokyo"]


def test_a_new_queue_is_reported_once(site: Engine, poller: RegistryPoller, found: Found) -> None:
    announce(site, "policy", "tokyo")
    poller.start()
    announce(site, "policy", "lima")
    eventually(lambda: found.sources == ["tokyo", "lima"])
    announce(site, "policy", "münchen")
    eventually(lambda: found.sources == ["tokyo", "lima", "münchen"])


def test_a_new_queue_is_found_after_the_end_of_the_main_thread(
    site: Engine, poller: RegistryPoller, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    poller.start()
    # The pools of Python end with the main thread, although other threads keep the process.
    monkeypatch.setattr(concurrent.futures.thread, "_shutdown", True)
    announce(site, "policy", "tokyo")
    eventually(lambda: found.sources == ["tokyo"])


def test_an_error_is_reported_and_polling_continues(site: Engine, poller: RegistryPoller, found: Found) -> None:
    with writing(site) as connection:
        # A view of PostgreSQL keeps its tables.
        cascade = " CASCADE" if connection.dialect.name == "postgresql" else ""
        connection.execute(text(f"DROP TABLE lrq_receive_queues{cascade}"))
    poller.start()
    eventually(lambda: len(found.errors) >= 2)
    assert isinstance(found.errors[0], NotInitializedError)
    with writing(site) as connection:
        tables.receive.receive_queues.create(connection)
    announce(site, "policy", "tokyo")
    eventually(lambda: found.sources == ["tokyo"])


def test_a_queue_is_reported_again_after_a_failing_callback(site: Engine, found: Found) -> None:
    def refuse_once(queue: ReceiveQueue) -> None:
        found.queues.append(queue)
        if len(found.queues) == 1:
            raise ValueError("no thread just now")

    announce(site, "policy", "tokyo")
    poller = RegistryPoller(
        site, names.client_name("policy"), interval=0.05, on_found=refuse_once, on_error=found.errors.append
    )
    poller.start()
    eventually(lambda: found.sources == ["tokyo", "tokyo"])
    poller.stop()
    assert [str(error) for error in found.errors] == ["no thread just now"]


def test_a_poller_that_was_never_started_can_be_stopped(poller: RegistryPoller) -> None:
    poller.stop()
