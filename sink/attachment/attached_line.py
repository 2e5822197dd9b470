"""The attachment of this server to one server of a source."""

import math
import threading
from typing import Final, NamedTuple

import grpc

from queues.backoff import Backoff
from queues.clock import RANDOM, Clock, jittered
from queues.errors import ConfigurationError, LrqError, PeerUnreachableError, ProtocolError, first_line
from queues.logs import logger
from queues.names import SiteId
from queues.thread_lack import reason_of
from queues.wire import attachment_pb2 as wire
from queues.wire import replication_pb2 as pb
from queues.wire.attachment_pb2_grpc import AttachmentStub
from queues.words import in_words
from sink.attachment.sink_call import SinkCall
from sink.port import Sink
from sink.transport import call_errors, channels
from sink.transport.channels import Lane
from sink.transport.credentials import Credentials, Pems, needed
from sink.transport.ended_calls import let_go
from sink.transport.endpoints import NetworkEndpoint, TlsEndpoint
from sink.transport.received_bytes import ReceivedBytes

#: The pauses between two attempts.
BACKOFF: Final = Backoff(first_seconds=0.1, cap_seconds=5.0)

_LANES: Final = {
    (False, False): Lane.LOG,
    (False, True): Lane.SLOW_LOG,
    (True, False): Lane.SNAPSHOTS,
    (True, True): Lane.SLOW_SNAPSHOTS,
}

log = logger("lrq.sink")


class AttachTo(NamedTuple):
    """A server of the site *source*, at *endpoint*."""

    source: SiteId
    endpoint: NetworkEndpoint


class SinkParts:
    """The things that all attachments of a server share: its sink, and the bytes that came in."""

    def __init__(
        self, sink: Sink, site: SiteId, credentials: Credentials | None, largest: int, most: int, clock: Clock
    ) -> None:
        """Take frames of at most *largest* bytes for *sink*, which is that of *site*.

        One server of a source has at most *most* calls at one moment; each occupies two threads.
        """
        self.sink = sink
        self.site = site
        self.server = f"{RANDOM.getrandbits(64):016x}"
        self.credentials = credentials
        self.largest = largest
        self.most = most
        self.clock = clock
        self.received = ReceivedBytes()
        self.stopping = threading.Event()


class AttachedLine:
    """Attaches this server again and again, and opens the calls that the source wants."""

    def __init__(self, to: AttachTo, parts: SinkParts) -> None:
        """Prepare the attachment; `start` begins it."""
        self._to = to
        self._parts = parts
        #: Why this server is not attached now; empty while it is.
        self.trouble = ""
        self._guard = threading.Lock()
        self._attached: grpc.Call | None = None
        self._calls: dict[SinkCall, threading.Thread] = {}
        self._thread = threading.Thread(target=self._run, name=f"lrq-attach-{to.source}", daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own; raise `ConfigurationError` if the machine has none."""
        try:
            self._thread.start()
        except RuntimeError as error:
            if lack := reason_of(error):
                raise ConfigurationError(lack) from error
            raise

    def end_calls(self, session: tuple[str, str]) -> None:
        """End the calls of *session*, a client and a source."""
        for call in self._open_calls():
            if call.session == session:
                call.end()

    def detach(self) -> None:
        """Attach no more; the calls go on. Set `SinkParts.stopping` before."""
        with self._guard:
            attached = self._attached
        if attached is not None:
            attached.cancel()

    def join_calls(self, until: float) -> None:
        """Wait for the calls until *until*, a time of the clock in monotonic seconds."""
        for thread in self._open_calls().values():
            thread.join(max(until - self._parts.clock.monotonic(), 0.0))

    def stop(self) -> None:
        """End all calls, and wait for their threads; call `detach` before."""
        calls = self._open_calls()
        for call in calls:
            call.end()
        for thread in calls.values():
            thread.join()
        if self._thread.ident is not None:
            self._thread.join()

    def _open_calls(self) -> dict[SinkCall, threading.Thread]:
        with self._guard:
            return dict(self._calls)

    # --- the thread of the attachment ---------------------------------------------------------------------------

    def _run(self) -> None:
        attempts = 0
        while not self._parts.stopping.is_set():
            attempts += 1
            try:
                self._stay_attached()
            except Exception as error:  # noqa: BLE001 - the top of the thread: the trouble has the reason
                if not self.trouble:
                    attempts = 1
                self._note(error)
            self._parts.clock.wait(self._parts.stopping, jittered(BACKOFF.delay_seconds(attempts)))

    def _stay_attached(self) -> None:
        """Attach, and open the wanted calls; raise the reason of the end."""
        to = self._to.endpoint
        pems = needed(self._parts.credentials, to).read() if isinstance(to, TlsEndpoint) else None
        line = channels.take(to.address, pems, Lane.LOG)
        try:
            with line.beginning():
                call = AttachmentStub(line.channel).Attach(self._request())
            with self._guard:
                self._attached = call
            if self._parts.stopping.is_set():
                call.cancel()
            for wanted in call:
                if wanted.number:
                    self._open(wanted, pems)
                else:
                    self._note(None)
        except grpc.RpcError as error:
            let_go(error)
            raise self._failed(error.code(), first_line(error.details() or "")) from error
        finally:
            channels.give_back(line, is_broken=True)
        raise PeerUnreachableError(f"{to} has ended the attachment, most likely because it stops")

    def _request(self) -> wire.AttachRequest:
        return wire.AttachRequest(sink=self._parts.site, server=self._parts.server, source=self._to.source)

    def _failed(self, code: grpc.StatusCode, details: str) -> LrqError:
        to = self._to.endpoint
        if code is grpc.StatusCode.FAILED_PRECONDITION:
            return ProtocolError(f"{to} does not let this site attach itself: {details}")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return ProtocolError(f"{to} takes no attached sinks: upgrade lrq there")
        return call_errors.failed(to, code, details, math.inf)

    def _note(self, error: Exception | None) -> None:
        trouble = "" if error is None else f"this server is not attached to {self._to.source}: {in_words(error)}"
        if trouble == self.trouble or self._parts.stopping.is_set():
            return
        self.trouble = trouble
        if error is None:
            log.info("this server is attached to a source", source=self._to.source, endpoint=str(self._to.endpoint))
        else:
            is_bug = not (isinstance(error, LrqError) or reason_of(error))
            log.warning("this server is not attached to a source", reason=trouble, exc_info=is_bug and error)

    # --- the threads of the calls -------------------------------------------------------------------------------

    def _open(self, wanted: wire.WantedCall, pems: Pems | None) -> None:
        begin = wire.CallBegin(number=wanted.number, max_bytes=self._parts.largest)
        call = SinkCall(self._parts.sink, self._verify, self._parts.stopping, self._parts.received, begin)
        lane = _LANES[wanted.for_snapshots, wanted.is_slow]
        thread = threading.Thread(target=self._carry, args=(call, lane, pems), name="lrq-attached-call", daemon=True)
        with self._guard:
            if self._parts.stopping.is_set() or len(self._calls) >= self._parts.most:
                # The source tells that no call has come.
                return
            self._calls[call] = thread
            try:
                thread.start()
            except RuntimeError as error:
                del self._calls[call]
                if not (lack := reason_of(error)):
                    raise
                log.warning("a call that a source wants cannot begin", source=self._to.source, reason=lack)

    def _carry(self, call: SinkCall, lane: Lane, pems: Pems | None) -> None:
        try:
            line = channels.take(self._to.endpoint.address, pems, lane)
            try:
                call.run(line)
            finally:
                channels.give_back(line, is_broken=False)
        except Exception:
            log.exception("a call of a source has ended by an error of its own", source=self._to.source)
        finally:
            with self._guard:
                del self._calls[call]

    def _verify(self, session: pb.SessionId) -> pb.Refusal | None:
        if session.source == self._to.source:
            return None
        reason = f"this call belongs to {self._to.source}, and carries no session of another site"
        return pb.Refusal(kind=pb.Refusal.WRONG_SITE, reason=reason)
