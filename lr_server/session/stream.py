"""One connection of a session: frames go out as the window allows, and acknowledgements come in.

The transport pulls the frames. The stream's own thread reads the acknowledgements, but not those of a `RestingSink`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from lr_server.protocol.events import PeerLost, SessionEvent
from lr_server.session.acknowledgements import Acknowledgements
from lr_server.session.current_work import CurrentWork
from lr_server.session.failures import peer_lost, source_failed
from lr_server.session.stream_context import StreamContext
from lr_server.session.stream_frames import StreamFrames
from lr_server.session.work import Work
from queues.errors import LrqError
from queues.wire.replication_pb2 import Ack, Frame
from queues.wire.replication_pb2 import Position as WirePosition
from sink.port import RestingSink, Sink
from sink.rests import Rest


class FrameStream:
    """Send the log or a snapshot to one sink, and report events, until the stream is closed or broken.

    *received* is the position in the sink's answer to the negotiation.
    """

    def __init__(
        self,
        sink: Sink | RestingSink,
        context: StreamContext,
        received: WirePosition,
        *,
        report: Callable[[SessionEvent], None],
    ) -> None:
        self._sink = sink
        self._session = context.session
        self._inflight = context.inflight
        self._report = report
        self._work = CurrentWork(context)
        self._frames = StreamFrames(context, received, self._work, self._report_while_open)
        self._acknowledgements = Acknowledgements(context, self._report_from_here)
        self._thread: threading.Thread | None = None
        # The threads of the stream that report an event now. An error there ends the session in the same thread.
        self._reporters = set[int]()
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to send."""
        if isinstance(self._sink, RestingSink):
            self._sink.exchange(self._frames.steps(), self._inflight.bell, self._noted, self._end_by)
            return
        name = f"lrq-stream-{self._session.client}-{self._session.sink}"
        self._thread = threading.Thread(target=self._run, args=(self._sink,), name=name, daemon=True)
        self._thread.start()

    def assign(self, work: Work | None) -> None:
        """Replace the current work by *work*; None sends nothing."""
        self._work.assign(work)

    def look(self) -> None:
        """End a rest: there may be further rows to send."""
        self._inflight.bell.set()

    def finish(self) -> None:
        """Stop sending, and take the answers to all frames in flight; `join` waits for them. Does not wait."""
        self._work.finish()

    def close(self) -> None:
        """Stop sending and forget all frames in flight. Does not wait."""
        self._work.close()

    @property
    def window_percent(self) -> int:
        """The used share of the window, in percent."""
        return self._inflight.percent

    @property
    def silent_seconds(self) -> float:
        """See `Acknowledgements.silent_seconds`."""
        return self._acknowledgements.silent_seconds

    @property
    def may_be_slow(self) -> bool:
        """See `Acknowledgements.may_be_slow`."""
        return self._acknowledgements.may_be_slow

    def is_stalled(self, stall_seconds: float) -> bool:
        """See `Acknowledgements.is_stalled`."""
        return self._acknowledgements.is_stalled(stall_seconds)

    def break_off(self, why: str) -> None:
        """Report the connection as lost."""
        if not self._work.is_closed:
            self._report(PeerLost(why))

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, at most *timeout* seconds; call `close` or `finish` first.

        Without a timeout, close the sink too.
        """
        if threading.get_ident() in self._reporters:
            return
        if self._thread is None:
            self._ended.wait(timeout)
        else:
            self._thread.join(timeout)

    # --- the stream's thread, or that of a `RestingSink` ------------------------------------------------------

    def _run(self, sink: Sink) -> None:
        try:
            with _closing(sink.replicate(self._pulled())) as acks:
                for ack in acks:
                    if not self._noted(ack):
                        break
        except BaseException as error:  # noqa: BLE001 - the top of the loop: the session shows the error and tries again
            self._end_by(error)
        else:
            self._end_by(None)

    def _pulled(self) -> Iterator[Frame]:
        """Yield the frames, and rest between them in the thread that asks for them."""
        with closing(self._frames.steps()) as steps:
            for step in steps:
                if isinstance(step, Rest):
                    self._inflight.bell.wait(step.seconds)
                else:
                    yield step

    def _noted(self, ack: Ack) -> bool:
        """Take *ack*; return whether the stream goes on."""
        if (refusal := self._acknowledgements.note(ack, self._work.now)) is not None:
            # No later event of the stream counts.
            self.close()
            self._report_from_here(refusal)
        return not self._work.is_closed

    def _end_by(self, error: BaseException | None) -> None:
        """Report the end of a stream that is still open."""
        try:
            if error is None:
                self._report_while_open(PeerLost("the sink has ended the stream"))
            elif isinstance(error, LrqError):
                # After a failure of this site the stream is closed already; see `StreamFrames.steps`.
                self._report_while_open(peer_lost(error))
            else:
                self._report_while_open(source_failed(error))
        finally:
            # The transport may still wait for the next frame, and must not join the feed again.
            self.close()
            self._ended.set()

    # --- events -----------------------------------------------------------------------------------------------

    def _report_while_open(self, event: SessionEvent) -> None:
        if not self._work.is_closed:
            self._report_from_here(event)

    def _report_from_here(self, event: SessionEvent) -> None:
        here = threading.get_ident()
        self._reporters.add(here)
        try:
            self._report(event)
        finally:
            self._reporters.discard(here)


@contextmanager
def _closing(acks: Iterator[Ack]) -> Iterator[Iterator[Ack]]:
    try:
        yield acks
    finally:
        close = getattr(acks, "close", None)
        if close is not None:
            close()
