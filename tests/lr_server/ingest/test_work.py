"""The storing of requests at a server that leads, from its beginning to its end."""

import pytest
from sqlalchemy import Engine

from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.pending import Pending, Slot
from lr_server.ingest.waiting import Room
from lr_server.ingest.work import IngestWork
from queues.clock import SYSTEM_CLOCK
from queues.names import ClientName
from queues.send_log.port import TickLimits
from queues.send_log.producers import ProducerKey, Production
from queues.send_log.sqlite.producers import SqliteStore
from queues.wire import ingest_pb2 as pb


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_request_that_comes_too_late_is_to_be_tried_again(site: Engine) -> None:
    work = IngestWork(
        SqliteStore(site, TickLimits()),
        Room(10, 1_000),
        counters=IngestCounters(),
        wake=lambda: None,
        clock=SYSTEM_CLOCK,
        on_ended=lambda _: None,
    )
    work.start()
    work.stop("this server stops", 0.0)
    production = Production(ProducerKey(ClientName("policy"), "p"), 0, ())
    refusal = work.admit([Pending(production, Slot(1), lambda _: None)])
    assert refusal is not None
    assert (refusal.kind, refusal.reason) == (pb.ProduceRefusal.TRANSIENT, "this server stops")
