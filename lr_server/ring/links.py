"""The way to one other member: a call that carries the messages, begun again after each failure."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final, NamedTuple, TypeVar

import grpc

from discovery.ring_status import RingStatus
from lr_server.present_trouble import PresentTrouble
from lr_server.ring.base_codec import decode_base, decode_requests
from lr_server.ring.codec import AddressedParcel, RingAddress, encode_parcel
from lr_server.ring.edge import RingParcel
from lr_server.ring.look import look_at, open_channel
from lr_server.ring.parcel_box import ParcelBox
from lr_server.ring.tick_codec import decode_tick
from lr_server.ring.ticks_under_way import CarriedTicks, TicksUnderWay, carried_by, note_loss, note_write
from queues.clock import SYSTEM_CLOCK, Clock, jittered
from queues.errors import ConfigurationError, PeerUnreachableError, TrimmedError, first_line
from queues.logs import logger
from queues.send_log.ring.log_base import LogBase, StoredRequest
from queues.send_log.ring.tick_contents import TickContent, weight_of
from queues.wire import ring_pb2 as pb
from queues.wire.ring_pb2_grpc import RingStub
from sink.transport.credentials import Credentials
from sink.transport.ended_calls import let_go

#: The longest wait for the answer to a `Pull`, in seconds.
PULL_SECONDS: Final = 60.0
#: The longest pause between two calls, in seconds.
_PAUSE: Final = 1.0
#: The longest sleep of a call that has nothing to send, in seconds.
_SLEEP: Final = 0.5
#: The most bytes of an answer to a `Pull`.
MOST_MESSAGE_BYTES: Final = 96 * 1024 * 1024

# The ends of calls to a member that is away, or that stops.
_AWAY: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED})

_TELL: Final = f"/{pb.DESCRIPTOR.services_by_name['Ring'].full_name}/Tell"

Asked = TypeVar("Asked")
Reply = TypeVar("Reply")

log = logger("lrq.ring")


class _Waiting(NamedTuple):
    parcel: RingParcel
    carried: CarriedTicks | None


class RingLink:
    """Sends the parcels of one member to another one; a parcel is lost while no call is open."""

    def __init__(
        self,
        address: RingAddress,
        receiver: int,
        endpoint: str,
        *,
        credentials: Credentials | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Begin to connect; raise `ConfigurationError` for a malformed *endpoint* or unusable *credentials*."""
        self._endpoint = endpoint
        self._credentials = credentials
        self._open().close()
        self._address, self._receiver, self._clock = address, receiver, clock
        self._box: ParcelBox[_Waiting] = ParcelBox()
        self._under_way = TicksUnderWay()
        self._entry = threading.Lock()
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._call: Any = None
        self._pull: Any = None
        self._trouble = PresentTrouble(log.bind(rank=receiver), "the way to a member of the ring has failed")
        self._thread = threading.Thread(target=self._run, name=f"lrq-ring-link-{receiver}", daemon=True)
        self._thread.start()

    def send(self, parcel: RingParcel) -> None:
        """Send the parcel, or lose it if the box is full or its ticks are under way. Never waits."""
        now, size = self._clock.monotonic(), sum(map(weight_of, parcel.contents))
        with self._entry:
            if self._under_way.has(parcel.message, now):
                return
            carried = carried_by(parcel.message, size, now)
            if self._box.put(_Waiting(parcel, carried), size) and carried is not None:
                self._under_way.entered(carried)

    def pull(self, after: int) -> list[TickContent]:
        """Return the next ticks of the other member.

        Raises `PeerUnreachableError` or `ProtocolError`, and `TrimmedError` if the next tick is trimmed there. `close`
        ends the wait, as that of the other pulls.
        """
        request = pb.PullRequest(site=self._address.site, token=self._address.token, after=after)
        reply = self._pulled(request, lambda stub: stub.Pull)
        if reply.trimmed_seq:
            raise TrimmedError(requested=after, oldest=reply.trimmed_seq)
        return [decode_tick(each) for each in reply.ticks]

    def pull_base(self) -> LogBase:
        """Return the beginning of the other member's trimmed log; raise `PeerUnreachableError` or `ProtocolError`."""
        request = pb.PullBaseRequest(site=self._address.site, token=self._address.token)
        return decode_base(self._pulled(request, lambda stub: stub.PullBase))

    def pull_requests(self, after: int, upto: int) -> list[StoredRequest]:
        """Return the other member's next requests between two entries; raise as `pull_base` does."""
        request = pb.PullRequestsRequest(site=self._address.site, token=self._address.token, after=after, upto=upto)
        return decode_requests(self._pulled(request, lambda stub: stub.PullRequests))

    def _pulled(
        self, request: Asked, method: "Callable[[RingStub], grpc.UnaryUnaryMultiCallable[Asked, Reply]]"
    ) -> Reply:
        channel = self._open()
        try:
            with self._guard:
                pull = self._pull = method(RingStub(channel)).future(request, timeout=PULL_SECONDS)
                if self._stopping.is_set():
                    pull.cancel()
            reply: Reply = pull.result()
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            let_go(error)
            words = f"rank {self._receiver} gives no ticks for a copy: {_reason(error)}"
            raise PeerUnreachableError(words) from error
        else:
            return reply
        finally:
            self._pull = None
            channel.close()

    def look(self) -> RingStatus:
        """Return the state of the other member; raise `PeerUnreachableError` or `ConfigurationError`."""
        return look_at(self._address, self._endpoint, self._credentials)

    def close(self) -> None:
        """End all calls; waiting parcels are lost."""
        self._stopping.set()
        self._box.close()
        with self._guard:
            for call in (self._call, self._pull):
                if call is not None:
                    call.cancel()
        self._thread.join()

    def _open(self) -> grpc.Channel:
        return open_channel(self._endpoint, self._credentials, ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES))

    def _run(self) -> None:
        while not self._stopping.is_set():
            # Older parcels are of no use: their sender repeats those that still count.
            with self._entry:
                self._box.clear()
                self._under_way.clear()
            try:
                self._tell()
            except grpc.FutureCancelledError:
                pass
            except (grpc.RpcError, ConfigurationError) as error:
                let_go(error)
                self._note(error)
            except Exception as error:  # noqa: BLE001 - the top of the loop: without it the members would not meet again
                self._trouble.note(error)
            self._clock.wait(self._stopping, jittered(_PAUSE))

    def _tell(self) -> None:
        """Send parcels in one call until the call ends; raise its error."""
        over = threading.Event()
        try:
            with closing(self._open()) as channel:
                tell: grpc.StreamUnaryMultiCallable[bytes, pb.TellEnd] = channel.stream_unary(
                    _TELL, response_deserializer=pb.TellEnd.FromString
                )
                with self._guard:
                    self._call = tell.future(self._frames(over))
                    if self._stopping.is_set():
                        self._call.cancel()
                self._call.result()
        finally:
            self._call = None
            over.set()

    def _note(self, error: Exception) -> None:
        """Log the end of a call: a refusal needs an operator, and a member that is away does not."""
        if isinstance(error, grpc.Call) and error.code() in _AWAY:
            log.debug("a member of the ring cannot be reached", rank=self._receiver, reason=_reason(error))
        else:
            self._trouble.note(PeerUnreachableError(_reason(error)))

    def _frames(self, over: threading.Event) -> Iterator[bytes]:
        while not (over.is_set() or self._stopping.is_set()):
            waiting = self._box.get(_SLEEP)
            if waiting is None:
                continue
            if over.is_set():
                note_loss(waiting.carried)
                return
            yield encode_parcel(AddressedParcel(self._address, self._receiver, waiting.parcel))
            # gRPC asks for the next frame once the one before is written.
            note_write(waiting.carried, self._clock.monotonic())


def _reason(error: Exception) -> str:
    if isinstance(error, grpc.FutureCancelledError):
        return "this member stops"
    return first_line(error.details() or "") if isinstance(error, grpc.Call) else first_line(error)
