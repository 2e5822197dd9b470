"""Traces in headers, and the spans of a listener's calls, without a database."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from lr_client.tracing import MAX_LINKS, consumer_span, current_trace, traced_headers
from queues.entry_headers import MAX_HEADERS, parse
from queues.errors import InvalidHeadersError
from queues.wire.entry_pb2 import RoutingTableEntryMsg

QUEUE = "LRQ_Recv_policy_paris"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Give the exporter of a tracer provider that counts as the application's."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # OpenTelemetry sets a provider once in a process.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def named(trace_id: int, span_id: int) -> str:
    return f"00-{trace_id:032x}-{span_id:016x}-01"


def entry(**headers: str) -> RoutingTableEntryMsg:
    return RoutingTableEntryMsg(headers=headers)


def sent_in(trace_id: int, span_id: int) -> RoutingTableEntryMsg:
    return entry(traceparent=named(trace_id, span_id))


def test_the_current_span_is_in_the_headers(exporter: InMemorySpanExporter) -> None:
    assert current_trace() == {}
    with trace.get_tracer("app").start_as_current_span("save") as span:
        found = span.get_span_context()
        flags = f"{found.trace_flags:02x}"
        assert current_trace() == {"traceparent": named(found.trace_id, found.span_id)[:-2] + flags}


def test_the_state_of_a_trace_is_in_the_headers_and_baggage_is_not(exporter: InMemorySpanExporter) -> None:
    state = trace.TraceState([("vendor", "value")])
    found = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(1), trace_state=state)
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(found), baggage.set_baggage("a", "b")))
    try:
        assert current_trace() == {"traceparent": named(1, 2), "tracestate": "vendor=value"}
    finally:
        context.detach(token)


def test_a_trace_joins_the_headers_of_the_caller() -> None:
    text = traced_headers({"a": "b"}, {"traceparent": named(1, 2)})
    assert parse(text or "") == {"a": "b", "traceparent": named(1, 2)}
    assert parse(traced_headers(None, {"traceparent": named(1, 2)}) or "") == {"traceparent": named(1, 2)}
    assert traced_headers(None, {}) is None


def test_a_trace_that_the_caller_names_stays() -> None:
    mine = {"traceparent": named(7, 8)}
    assert parse(traced_headers(mine, {"traceparent": named(1, 2), "tracestate": "a=b"}) or "") == mine


def test_a_trace_never_prevents_an_entry() -> None:
    full = {str(number): "" for number in range(MAX_HEADERS)}
    assert parse(traced_headers(full, {"traceparent": named(1, 2)}) or "") == full
    with pytest.raises(InvalidHeadersError):
        traced_headers({"": "x"}, {"traceparent": named(1, 2)})


def test_a_call_continues_the_trace_that_its_entries_share(exporter: InMemorySpanExporter) -> None:
    with consumer_span(QUEUE, [sent_in(5, 1), sent_in(5, 2), sent_in(5, 1)]):
        within = trace.get_current_span().get_span_context()
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind) == (f"process {QUEUE}", SpanKind.CONSUMER)
    assert span.context == within
    assert span.context is not None
    assert span.parent is not None
    assert (span.context.trace_id, span.parent.span_id) == (5, 1)
    assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [(5, 1), (5, 2)]
    assert dict(span.attributes or {}) == {
        "messaging.system": "lrq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": QUEUE,
        "messaging.batch.message_count": 3,
    }
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("entries", "links"),
    [
        ([sent_in(5, 1), sent_in(6, 1)], [(5, 1), (6, 1)]),
        ([sent_in(5, 1), entry()], [(5, 1)]),
        ([entry(), sent_in(5, 1)], [(5, 1)]),
        ([sent_in(5, 1), entry(traceparent="nonsense")], [(5, 1)]),
        ([entry(traceparent="nonsense")], []),
        ([entry(other="x")], []),
        ([], []),
    ],
)
def test_a_call_whose_entries_share_no_trace_begins_one_with_links(
    exporter: InMemorySpanExporter, entries: list[RoutingTableEntryMsg], links: list[tuple[int, int]]
) -> None:
    with trace.get_tracer("app").start_as_current_span("around"), consumer_span(QUEUE, entries):
        pass
    span = exporter.get_finished_spans()[0]
    assert span.parent is None
    assert [(link.context.trace_id, link.context.span_id) for link in span.links] == links


def test_the_links_of_a_call_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(span_limits=SpanLimits(max_links=2_000))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    with consumer_span(QUEUE, [sent_in(number, 1) for number in range(1, 1_000)]):
        pass
    assert len(exporter.get_finished_spans()[0].links) == MAX_LINKS


def test_a_failed_call_fails_its_span_without_the_payload(exporter: InMemorySpanExporter) -> None:
    def fail() -> None:
        with consumer_span(QUEUE, [sent_in(5, 1)]):
            raise ValueError("cannot apply a secret payload")

    with pytest.raises(ValueError, match="cannot apply"):
        fail()
    (span,) = exporter.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert span.events == ()


def test_no_span_begins_where_traces_are_switched_off(exporter: InMemorySpanExporter) -> None:
    with consumer_span(QUEUE, [sent_in(5, 1)], enabled=False):
        assert not trace.get_current_span().get_span_context().is_valid
    assert exporter.get_finished_spans() == ()


def test_without_a_provider_the_trace_of_the_entries_is_still_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider())
    with consumer_span(QUEUE, [sent_in(5, 1)]):
        assert current_trace() == {"traceparent": named(5, 1)}


@pytest.mark.processes
def test_an_application_without_opentelemetry_loads_none_of_it() -> None:
    code = (
        "import sys; from lr_client import tracing; assert tracing.current_trace() == {}\n"
        "with tracing.consumer_span('q', []): pass\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
