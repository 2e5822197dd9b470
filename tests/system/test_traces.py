"""A trace goes on from the transaction of the sender to the call of the listener."""

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from tests.lr_client.test_tracing import exporter
from tests.system.world import Recorder, World
from tests.waiting import eventually

__all__ = ["exporter"]


class Traced(Recorder):
    """Records the trace id that is current in each call, and the traceparent headers of its entries."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[int] = []
        self.named: list[str] = []
        self.obey = self.note

    def note(self, session: Session, source: str, entries: Sequence[Any]) -> bool:
        self.traces.append(trace.get_current_span().get_span_context().trace_id)
        self.named += [entry.headers.get("traceparent", "") for entry in entries]
        return True


def transmit_in_a_span(world: World, client: RoutingQueueSenderClient) -> int:
    """Transmit one entry in a span of the application; return the trace id."""
    with trace.get_tracer("app").start_as_current_span("save") as span:
        with Session(world.site("paris")) as session, session.begin():
            client.transmit_log_entry_message(session, b"traced", ["tokyo"])
        return span.get_span_context().trace_id


def test_the_listener_continues_the_trace_of_the_sender(world: World, exporter: InMemorySpanExporter) -> None:
    listener = Traced()
    world.subscribe("tokyo", listener)
    tokyo = world.server("tokyo")
    world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    sent = transmit_in_a_span(world, world.client)
    eventually(lambda: listener.log("paris") == [b"traced"])
    assert listener.traces == [sent]
    spans = {span.name: span for span in exporter.get_finished_spans()}
    parent, sender = spans["process LRQ_Recv_policy_paris"].parent, spans["save"].context
    assert parent is not None
    assert sender is not None
    assert (parent.trace_id, parent.span_id) == (sender.trace_id, sender.span_id)


@pytest.mark.parametrize("off", ["sender", "subscriber"])
def test_traces_can_be_switched_off(world: World, exporter: InMemorySpanExporter, off: str) -> None:
    listener = Traced()
    world.subscribe("tokyo", listener, trace=off != "subscriber")
    world.link("paris", "tokyo", initial_sync="log")
    sent = transmit_in_a_span(world, RoutingQueueSenderClient("policy", trace=off != "sender"))
    eventually(lambda: listener.log("paris") == [b"traced"])
    assert [bool(name) for name in listener.named] == [off == "subscriber"]
    assert sent not in listener.traces
    assert [bool(found) for found in listener.traces] == [off == "sender"]
