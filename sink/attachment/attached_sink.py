"""A `Sink` that has attached itself to this server."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from queues.errors import PeerUnreachableError
from queues.names import SiteId
from queues.wire import replication_pb2 as pb
from sink.attachment.attachments import Attachments, Wish
from sink.attachment.source_call import SourceCall
from sink.transport.remote import NEGOTIATION_TIMEOUT


class AttachedSink:
    """See `Sink`; each stream has a call of its own, which begins with the negotiation before."""

    def __init__(
        self,
        site: SiteId,
        attachments: Attachments,
        *,
        for_snapshots: bool = False,
        is_slow: bool = False,
        negotiation_timeout: float = NEGOTIATION_TIMEOUT,
        count_bytes: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Reach *site* through its *attachments*; see `RemoteSink` for the other parameters.

        The calls *for_snapshots* share a connection, and those for logs another one. *is_slow*: so is the line.
        """
        self._site = site
        self._attachments = attachments
        self._for_snapshots = for_snapshots
        self._is_slow = is_slow
        self._timeout = negotiation_timeout
        self._count_bytes = count_bytes
        self._guard = threading.Lock()
        self._negotiated: SourceCall | None = None
        self._under_way: set[SourceCall | Wish] = set()
        self._is_closed = False

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        """See `Sink`."""
        with self._call() as call:
            answer = call.negotiate(request, self._timeout)
            with self._guard:
                earlier, self._negotiated = self._negotiated, call
        if earlier is not None:
            earlier.end()
        return answer

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        """See `Sink`; another thread reads *frames*."""
        with self._call() as call:
            acks = call.replicate(frames, self._count_bytes)
            del frames  # see `OutgoingFrames.release`
            yield from acks

    def close(self) -> None:
        """See `Sink`."""
        with self._guard:
            self._is_closed = True
            under_way = [*self._under_way, *([self._negotiated] if self._negotiated else [])]
            self._negotiated = None
        for each in under_way:
            each.end()

    @contextmanager
    def _call(self) -> Iterator[SourceCall]:
        """Use the call of the last negotiation, or a new one; the call ends after an error."""
        with self._guard:
            call, self._negotiated = self._negotiated, None
        call = call or self._opened()
        with self._using(call):
            try:
                yield call
            except BaseException:
                call.end()
                raise

    def _opened(self) -> SourceCall:
        wishing = self._attachments.wish(self._site, for_snapshots=self._for_snapshots, is_slow=self._is_slow)
        with wishing as wish, self._using(wish):
            return wish.wait(self._timeout)

    @contextmanager
    def _using(self, item: SourceCall | Wish) -> Iterator[None]:
        """Let `close` end *item* during the block, which then ends by the error of a closed connection."""
        with self._guard:
            self._under_way.add(item)
        try:
            self._require_open()
            yield
            self._require_open()
        except PeerUnreachableError as error:
            if self._is_closed:
                item.end()
                raise self._closed() from error
            raise
        finally:
            with self._guard:
                self._under_way.discard(item)

    def _require_open(self) -> None:
        if self._is_closed:
            raise self._closed()

    def _closed(self) -> PeerUnreachableError:
        return PeerUnreachableError(f"the connection to attached:{self._site} was closed on this side")
