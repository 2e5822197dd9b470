"""The port between a source and a sink."""

from collections.abc import Iterator
from typing import Final, Protocol

from queues.wire.replication_pb2 import Ack, Frame, NegotiateRequest, NegotiateResponse

#: Version of the frames and of their rules; both sides must speak the same.
PROTOCOL: Final = 1


class Sink(Protocol):
    """One site's inbox, here or far away; sessions may use it from several threads.

    * A refusal is an answer, never an exception. `PeerUnreachableError` says that no answer came, so that what
      was sent may or may not be stored; `ProtocolError` that the answer is not that of a sink.
    * `negotiate` begins a stream: the next `replicate` of that session belongs to it, and an older one is refused
      from then on. Every stream needs a `negotiate` of its own.
    * Whatever is sent twice is stored once, also over several streams and restarts.
    * An acknowledgement covers only what is durable.
    """

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        """Tell where the session stands; with `rollback_to`, first forget what came after that header.

        Keeps the session's generation: from now on a lower one is refused, also in streams that are under way.
        """
        ...

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        """Take one session's frames, each of which names the session; yield one cumulative answer a frame, in order.

        After a refusal, and when *frames* ends, it ends. Raises `PeerUnreachableError` also in the middle, and
        whatever *frames* raises. Closing the iterator ends the stream; *frames* should end soon after that, because
        it may be read by another thread.
        """
        ...

    def close(self) -> None:
        """Let go of the connection; streams under way end with `PeerUnreachableError`. May be called twice."""
        ...
