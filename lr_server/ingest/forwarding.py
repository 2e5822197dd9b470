"""Pass requests on to the server that leads the log, on one stream for each stream of a producer."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

import grpc

from lr_server.ingest.pending import Settle, Slot
from lr_server.ingest.refusal import Refusal, refused
from queues.errors import ConfigurationError
from queues.produce_envelope import ENOUGH_BYTES, packed, replies_in
from queues.wire import ingest_pb2 as pb
from sink.transport import channels
from sink.transport.admission import is_unread
from sink.transport.credentials import Credentials
from sink.transport.ended_calls import let_go
from sink.transport.endpoints import TlsEndpoint, network_endpoint

#: The seconds to wait for a connection to the leader.
_CONNECT: Final = 2.0
_METHOD: Final = "/lrq.Ingest/Produce"


class Forwarded(NamedTuple):
    """A request on its way: its number, its bytes, and the slot of its reply."""

    sequence: int
    message: bytes
    slot: Slot


class Upstream:
    """A stream to the leader; its replies settle the requests in their order."""

    def __init__(self, shared: channels.SharedChannel, endpoint: str, settle: Settle) -> None:
        self._shared = shared
        self._endpoint = endpoint
        #: Why the stream takes no request, once `send` returns False.
        self.problem = "the server that stores requests ended the stream: try again"
        self._settle = settle
        self._unanswered: deque[Forwarded] = deque()
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._is_over = False
        # Whether this side has ended the stream after an answer to each request.
        self._is_done = False
        produce: grpc.StreamStreamMultiCallable[bytes, pb.ProduceReply] = shared.channel.stream_stream(
            _METHOD, response_deserializer=pb.ProduceReply.FromString
        )
        self._call = produce(self._messages())
        threading.Thread(target=self._answer, name="lrq-ingest-forward", daemon=True).start()

    def send(self, requests: Sequence[Forwarded]) -> bool:
        """Send requests; return False, with none sent, if the stream has ended."""
        with self._guard:
            if self._is_over:
                return False
            self._unanswered.extend(requests)
            for request in requests:
                self._requests.put(request.message)
            return True

    def _messages(self) -> Iterator[bytes]:
        """Yield the requests, those that wait at the same time in one message, until `close`."""
        while (request := self._requests.get()) is not None:
            group, size = [request], len(request)
            is_last = False
            # Only this thread takes requests, so `get` never waits here.
            while size < ENOUGH_BYTES and not is_last and not self._requests.empty():
                more = self._requests.get()
                is_last = more is None
                group += [more] if more is not None else []
                size += len(more or b"")
            yield from packed(group)
            if is_last:
                return

    def close(self) -> None:
        """End the stream; unanswered requests have no certain outcome."""
        with self._guard:
            self._is_done = not self._unanswered
        self._requests.put(None)
        self._call.cancel()

    def _answer(self) -> None:
        broken = False
        # Why the leader has surely stored none of the unanswered requests; None without this certainty.
        refusal: Refusal | None = None
        try:
            for message in self._call:
                self._settle([(self._unanswered.popleft().slot, reply) for reply in replies_in(message)])
        except grpc.RpcError as error:
            let_go(error)
            # The producer repeats the request, and the next stream tells the reason. Only without an unanswered request
            # the connection is surely alive, and other streams go on with it.
            broken = not self._is_done
            if is_unread(error):
                self.problem = _turned_away(self._endpoint, error)
                broken, refusal = False, Refusal(pb.ProduceRefusal.NOT_LEADER, self.problem, 0, self._endpoint)
        finally:
            with self._guard:
                self._is_over = True
                left = list(self._unanswered)
            self._requests.put(None)
            self._settle([(each.slot, refusal and refused(each.sequence, refusal)) for each in left])
            channels.give_back(self._shared, is_broken=broken)


def _turned_away(endpoint: str, error: grpc.RpcError) -> str:
    reason = error.details() if isinstance(error, grpc.Call) else ""
    return f"the server that stores requests takes no further stream from here ({reason}): send them to {endpoint}"


def open_upstream(endpoint: str, credentials: Credentials | None, settle: Settle) -> Upstream | str:
    """Return a stream to the server at *endpoint*, or the sentence that tells why there is none."""
    try:
        there = network_endpoint(endpoint)
        pems = credentials.read() if isinstance(there, TlsEndpoint) and credentials else None
    except ConfigurationError as error:
        return str(error)
    shared = channels.take(there.address, pems, channels.Lane.REPLACEABLE)
    if not _is_reached(shared):
        channels.give_back(shared, is_broken=True)
        return f"the server that stores requests, at {endpoint}, cannot be reached from here"
    return Upstream(shared, endpoint, settle)


def _is_reached(shared: channels.SharedChannel) -> bool:
    """Wait until *shared* is connected; return False after the first failed attempt, and after `_CONNECT` seconds.

    The leader may have gone. Without a second attempt the producer soon asks the next server.
    """
    told: SimpleQueue[grpc.ChannelConnectivity] = SimpleQueue()

    def note(state: grpc.ChannelConnectivity) -> None:
        if state not in (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING):
            told.put(state)

    shared.watch(note)
    try:
        return told.get(timeout=_CONNECT) is grpc.ChannelConnectivity.READY
    except Empty:
        return False
    finally:
        shared.unwatch(note)


class Forwarding:
    """The forwarding of one producer's stream, whose slots *settle* settles; not for several threads."""

    def __init__(self, credentials: Callable[[], Credentials | None], settle: Settle) -> None:
        self._credentials = credentials
        self._settle = settle
        self._upstream: Upstream | None = None
        self._endpoint = ""

    def send(self, endpoint: str, requests: Sequence[pb.ProduceRequest], slots: Sequence[Slot]) -> str:
        """Send *requests* one hop further to *endpoint*; return why none of them is sent, empty if all are."""
        sent = [_one_hop_further(*each) for each in zip(requests, slots, strict=True)]
        if self._upstream is not None and self._endpoint == endpoint and self._upstream.send(sent):
            return ""
        self.close()
        opened = open_upstream(endpoint, self._credentials(), self._settle)
        if isinstance(opened, str):
            return opened
        self._upstream, self._endpoint = opened, endpoint
        return "" if opened.send(sent) else opened.problem

    def close(self) -> None:
        """End the stream to the leader, if there is one."""
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.close()


def _one_hop_further(request: pb.ProduceRequest, slot: Slot) -> Forwarded:
    request.hops += 1
    return Forwarded(request.sequence, request.SerializeToString(), slot)
