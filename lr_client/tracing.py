"""Traces of OpenTelemetry: entries carry the sender's trace, and the listener's calls continue it.

See docs/headers.md, "Traces". Nothing here imports OpenTelemetry unless the application has done so.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from queues.entry_headers import checked_headers
from queues.errors import InvalidHeadersError
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from queues.words import class_of

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

#: The header that names a trace and its span, of W3C's Trace Context.
TRACEPARENT: Final = "traceparent"
#: The most traces that one span is linked with: the usual limit of OpenTelemetry.
MAX_LINKS: Final = 128

_API: Final = "opentelemetry.trace"


def current_trace() -> dict[str, str]:
    """Return the headers of the caller's current span; none without OpenTelemetry or without a span."""
    if _API not in sys.modules:
        return {}
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    if trace.get_current_span().get_span_context().is_valid:
        TraceContextTextMapPropagator().inject(carrier)
    return carrier


def traced_headers(headers: Mapping[str, str] | None, trace: Mapping[str, str]) -> str | None:
    """Return the text of *headers*, with those of *trace* unless *headers* names a trace.

    Raises `InvalidHeadersError` for malformed *headers*. A trace that finds no room is left out.
    """
    given = checked_headers(headers)
    if not trace or (headers and TRACEPARENT in headers):
        return given
    try:
        return checked_headers({**(headers or {}), **trace})
    except InvalidHeadersError:
        return given


@contextmanager
def consumer_span(
    queue: str, entries: Sequence[RoutingTableEntryMsg], *, count: int | None = None, enabled: bool = True
) -> Iterator[None]:
    """Let a consumer span be current in the block, linked with the traces of *entries*.

    The span continues their trace if all entries have the same one. Without OpenTelemetry in the application there is
    no span. *count* is the number of entries, if *entries* are only those with headers.
    """
    if not enabled or _API not in sys.modules:
        yield
        return
    from opentelemetry import trace
    from opentelemetry.context import Context

    senders = _senders(entries)
    parent = Context()
    if senders and senders[0].is_valid and len({sender.trace_id for sender in senders}) == 1:
        parent = trace.set_span_in_context(trace.NonRecordingSpan(senders[0]), parent)
    spans = {(sender.trace_id, sender.span_id): sender for sender in senders if sender.is_valid}
    attributes: dict[str, str | int] = {
        "messaging.system": "lrq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": queue,
        "messaging.batch.message_count": len(entries) if count is None else count,
    }
    with trace.get_tracer("lrq").start_as_current_span(
        f"process {queue}",
        parent,
        trace.SpanKind.CONSUMER,
        attributes,
        [trace.Link(span) for span in list(spans.values())[:MAX_LINKS]],
        # The text of an error may hold payloads.
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield
        except BaseException as error:
            current.set_attribute("error.type", type(error).__qualname__)
            current.set_status(trace.StatusCode.ERROR, class_of(error))
            raise


def _senders(entries: Sequence[RoutingTableEntryMsg]) -> "list[SpanContext]":
    """Return the span that each of *entries* names; an invalid span for none, or for a malformed one."""
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found = {"": trace.INVALID_SPAN_CONTEXT}
    names = [entry.headers.get(TRACEPARENT, "") for entry in entries]
    for name, entry in zip(names, entries, strict=True):
        if name not in found:
            context = TraceContextTextMapPropagator().extract(dict(entry.headers), Context())
            found[name] = trace.get_current_span(context).get_span_context()
    return [found[name] for name in names]
