"""Serves sinks that attach themselves, at the endpoints of their source."""

from collections.abc import Callable, Iterator
from typing import Final

import grpc

from queues.clock import Clock
from queues.errors import LrqError
from queues.logs import logger
from queues.names import MAX_NAME_LENGTH, SiteId
from queues.wire import attachment_pb2 as wire
from queues.words import cleaned
from sink.attachment.attachments import Attachments
from sink.attachment.source_call import SourceCall
from sink.transport.admission import entered
from sink.transport.call_slots import CallLimits, CallSlots
from sink.transport.peer_identity import certified_names
from sink.transport.service import MAX_STREAMS

#: The longest wait for the first message of a call, in seconds.
FIRST_MESSAGE_SECONDS: Final = 10.0

_SETTINGS: Final = ("max_streams", "max_streams_per_caller")
#: The most characters of a server's name that count.
_LONGEST_NAME: Final = 64

#: The full name of the service.
ATTACHMENT: Final = wire.DESCRIPTOR.services_by_name["Attachment"].full_name

log = logger("lrq.session")


class AttachmentServicer:
    """Attaches the servers of sinks to this server of *site*."""

    def __init__(
        self,
        site: SiteId,
        attachments: Attachments,
        doubt_of: Callable[[SiteId], str],
        clock: Clock,
        *,
        most: int = MAX_STREAMS,
        most_per_caller: int | None = None,
    ) -> None:
        """Note the attached servers in *attachments*; *doubt_of* returns the reason against a site, or "".

        There are at most *most* attached servers at one moment, and at most *most* sessions with them. One caller has
        at most *most_per_caller* of both, by default half of them.
        """
        self._site = site
        self._attachments = attachments
        self._doubt_of = doubt_of
        #: The threads that its calls may need.
        self.threads = 2 * most
        own = most_per_caller or (most + 1) // 2
        self._servers = CallSlots(CallLimits(most, own, FIRST_MESSAGE_SECONDS, "attached servers", *_SETTINGS), clock)
        self._calls = CallSlots(CallLimits(most, own, FIRST_MESSAGE_SECONDS, "sessions", *_SETTINGS), clock)

    @property
    def handlers(self) -> grpc.GenericRpcHandler:
        """GRPC's handlers of the service."""
        attach: grpc.RpcMethodHandler[wire.AttachRequest, wire.WantedCall] = grpc.unary_stream_rpc_method_handler(
            self.attach, wire.AttachRequest.FromString, wire.WantedCall.SerializeToString
        )
        carry: grpc.RpcMethodHandler[wire.FromSink, wire.ToSink] = grpc.stream_stream_rpc_method_handler(
            self.carry, wire.FromSink.FromString, wire.ToSink.SerializeToString
        )
        return grpc.method_handlers_generic_handler(ATTACHMENT, {"Attach": attach, "Carry": carry})

    def attach(self, request: wire.AttachRequest, context: grpc.ServicerContext) -> Iterator[wire.WantedCall]:
        """Attach a server until the end of the call."""
        slot = entered(self._servers, context)
        try:
            # The type stubs declare other values than gRPC returns.
            named = certified_names(context.auth_context())  # type: ignore[arg-type]
            if doubt := self._doubt(request, named):
                if self._servers.is_news():
                    log.warning("a site that wants to attach itself was refused", reason=doubt)
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, doubt)
            attachment = self._attachments.attach(SiteId(request.sink), request.server[:_LONGEST_NAME])
            try:
                if context.add_callback(attachment.end):
                    yield wire.WantedCall()
                    yield from attachment.wanted()
            finally:
                self._attachments.detach(attachment)
        finally:
            self._servers.leave(slot)

    def carry(self, requests: Iterator[wire.FromSink], context: grpc.ServicerContext) -> Iterator[wire.ToSink]:
        """Carry the questions and frames of the session that waits for this call."""
        slot = entered(self._calls, context)
        try:
            call = SourceCall(requests, context.cancel)
            if context.add_callback(call.end):
                self._give(call, context)
                yield from call.messages()
        finally:
            self._calls.leave(slot)

    def _give(self, call: SourceCall, context: grpc.ServicerContext) -> None:
        try:
            number = call.begin(FIRST_MESSAGE_SECONDS)
        except LrqError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        if not self._attachments.take(number, call):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no session waits for this call")

    def _doubt(self, request: wire.AttachRequest, named: frozenset[str] | None) -> str:
        """Return the reason against the attachment; empty if there is none."""
        # The peer chooses the texts.
        sink, source = cleaned(request.sink, MAX_NAME_LENGTH), cleaned(request.source, MAX_NAME_LENGTH)
        if request.source != self._site:
            return f"this is site {self._site!r}, not {source!r}: correct `attach` at {sink}"
        if named is not None and request.sink not in named:
            shown = ", ".join(repr(name) for name in sorted(named)) or "no site"
            return f"the certificate shown names {shown}, not site {sink!r}: use one that does"
        return self._doubt_of(SiteId(sink))
