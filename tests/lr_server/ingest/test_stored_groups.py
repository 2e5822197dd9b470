"""The count of stored groups never goes back: a counter that does looks like one of a new server."""

from collections.abc import Sequence

import pytest
from sqlalchemy import Engine

from lr_server import Settings
from lr_server.ingest.ingest import Ingest
from lr_server.ingest.intake import Leader
from lr_server.ingest.pending import Pending, Reply, Slot
from queues.clock import SYSTEM_CLOCK
from queues.destinations import destination_set
from queues.names import ClientName
from queues.send_log.outbox import NewEntry
from queues.send_log.port import TickLimits
from queues.send_log.producers import ProducerKey, Production
from queues.send_log.sqlite.producers import SqliteStore
from tests.waiting import eventually

CLIENT = ClientName("policy")


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_count_stays_while_the_server_ends_to_store(site: Engine) -> None:
    counts: list[int] = []

    class Ending(SqliteStore):
        def close(self) -> None:
            counts.append(ingest.facts.groups)

    def store(engine: Engine, limits: TickLimits) -> Ending:
        return Ending(engine, limits)

    settings = Settings(site_id="paris", database_url=str(site.url))
    ingest = Ingest(
        site, settings, leader=lambda: Leader(is_me=True), followers=lambda: None, clock=SYSTEM_CLOCK, new_store=store
    )
    ingest.lead(lambda: None, lambda _: None)
    replies: list[Sequence[tuple[Slot, Reply]]] = []
    entry = NewEntry(b"x", destination_set(CLIENT, ["tokyo"]), None, None, None)
    production = Production(ProducerKey(CLIENT, "p"), 1, [entry])
    assert ingest.admit([Pending(production, Slot(1), replies.append)]) is None
    eventually(lambda: replies)
    ingest.follow()
    assert counts == [1]
    assert ingest.facts.groups == 1
