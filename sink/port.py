"""The port between a source and a sink."""

from collections.abc import Callable, Generator, Iterator
from typing import Protocol, runtime_checkable

from queues.wire.replication_pb2 import Ack, Frame, NegotiateRequest, NegotiateResponse
from sink.rests import Bell, Rest


class AskedSink(Protocol):
    """The part of a sink that does not depend on the way of its frames; see `Sink`."""

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        """Return the session's state at the sink; see `Sink.negotiate`."""
        ...

    def close(self) -> None:
        """Release the connection; see `Sink.close`."""
        ...


class Sink(Protocol):
    """The inbox of one site, in this process or remote; sessions may call it from several threads.

    * A refusal is an answer, never an exception. After `PeerUnreachableError` no answer came, and the sent data may or
      may not be stored. `ProtocolError`: the answer is not that of a sink.
    * `negotiate` begins a stream: the session's next `replicate` belongs to it, and older streams are refused from then
      on. Every stream needs its own `negotiate`.
    * An entry that is sent twice is stored once, also over several streams and restarts.
    * An acknowledgement covers only durable entries. A crash may take rows of a snapshot before its publication. The
      next negotiation tells the rows that are left.
    """

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        """Return the session's state at the sink; with `rollback_to`, first delete all entries after that header.

        With `replay`, first carry out or end the order for a replay that an earlier answer told.

        The sink stores the session's generation: from now on a lower one is refused, also in open streams.
        """
        ...

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        """Store one session's frames, each of which names the session; yield one cumulative answer for each, in order.

        The iterator ends after a refusal, and at the end of *frames*. `PeerUnreachableError` may be raised at any time,
        and any error of *frames*. Closing the iterator ends the stream. *frames* should end soon after that, because
        another thread may read from it.
        """
        ...

    def close(self) -> None:
        """Release the connection; open streams end with `PeerUnreachableError`. May be called twice."""
        ...


@runtime_checkable
class RestingSink(AskedSink, Protocol):
    """A sink whose streams need no thread while they rest. The promises are those of `Sink`."""

    def exchange(
        self,
        steps: Generator[Frame | Rest, None, None],
        bell: Bell,
        note: Callable[[Ack], bool],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """Begin to store the frames of *steps*, as `Sink.replicate` does, and return at once.

        A worker takes one step at a time. After a `Rest` the next one is taken in its time, or once *bell* is set.
        *note* gets each answer in order, and ends the stream by returning False. *ended* gets the error of
        `replicate`, or None, and is called once. *steps* are closed after that. Neither *note* nor *ended* may wait.
        """
        ...
