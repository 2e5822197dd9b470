"""The messages between the members of a token, as frames of the wire."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from lr_server.protocol.agreement import messages as ours
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.history import GenerationStart, TickHistory, TickMark
from lr_server.protocol.agreement.record import StoreId
from lr_server.ring.edge import RingParcel
from lr_server.ring.store import mark_of
from lr_server.ring.tick_codec import check_numbers, decode_tick, encode_tick
from queues.errors import CorruptFrameError, ProtocolError
from queues.send_log.ring.tick_contents import TickContent
from queues.wire import ring_pb2 as pb

#: The most ticks of one frame.
MOST_TICKS: Final = 64


class RingAddress(NamedTuple):
    """One token of a site."""

    site: str
    token: int


class AddressedParcel(NamedTuple):
    """A parcel with the token and the rank that it is for."""

    address: RingAddress
    receiver: int
    parcel: RingParcel


def encode_parcel(addressed: AddressedParcel) -> bytes:
    """Return the frame of a parcel."""
    (site, token), receiver, (sender, store, message, contents, trimmed) = addressed
    name, body = _encode(message)
    frame = pb.RingFrame(
        site=site,
        token=token,
        sender=sender,
        receiver=receiver,
        store=_store(store),
        ticks=map(encode_tick, contents),
        trimmed=trimmed,
        **{name: body},
    )
    return frame.SerializeToString()


def decode_parcel(encoded: bytes) -> AddressedParcel:
    """Return the parcel of a frame; raise `ProtocolError` if the frame is damaged or contradicts itself."""
    try:
        frame = pb.RingFrame.FromString(encoded)
    except DecodeError as error:
        raise CorruptFrameError(f"a frame of {len(encoded)} bytes cannot be read") from error
    if frame.sender not in RANKS or frame.receiver not in RANKS or frame.sender == frame.receiver:
        raise ProtocolError(f"a frame names the ranks {frame.sender} and {frame.receiver}")
    if len(frame.ticks) > MOST_TICKS:
        raise ProtocolError(f"a frame holds {len(frame.ticks)} ticks, the limit is {MOST_TICKS}")
    name = frame.WhichOneof("message")
    if name is None:
        raise ProtocolError("a frame has no message that this version knows")
    contents = tuple(map(decode_tick, frame.ticks))
    body = getattr(frame, name)
    check_numbers(getattr(body, "generation", 0), getattr(body, "promised", 0), getattr(body, "released", 0))
    message = _DECODED[name](body, contents)
    check_numbers(frame.trimmed)
    parcel = RingParcel(frame.sender, _store_id(frame.store), message, contents, frame.trimmed)
    return AddressedParcel(RingAddress(frame.site, frame.token), frame.receiver, parcel)


# --- parts ----------------------------------------------------------------------------------------------------


def _tick(mark: TickMark) -> pb.RingTick:
    return pb.RingTick(generation=mark.generation, number=mark.seq)


def _mark(tick: pb.RingTick) -> TickMark:
    check_numbers(tick.generation, tick.number)
    return TickMark(tick.generation, tick.number)


def _store(store: StoreId) -> pb.RingStore:
    return pb.RingStore(number=store.number, uid=store.uid)


def _store_id(store: pb.RingStore) -> StoreId:
    check_numbers(store.number, store.uid)
    return StoreId(store.number, store.uid)


def _stores(told: Iterable[pb.RingStore]) -> tuple[StoreId, ...]:
    stores = tuple(map(_store_id, told))
    if len(stores) != len(RANKS):
        raise ProtocolError(f"a member tells {len(stores)} stores of {len(RANKS)}")
    return stores


def _history(history: TickHistory) -> pb.RingHistory:
    return pb.RingHistory(seals=[_tick(TickMark(*start)) for start in history.starts], end=history.end)


def _told_history(told: pb.RingHistory) -> TickHistory:
    return TickHistory(tuple(GenerationStart(*_mark(seal)) for seal in told.seals), told.end)


def _marks(contents: Iterable[TickContent]) -> tuple[TickMark, ...]:
    return tuple(map(mark_of, contents))


# --- messages -------------------------------------------------------------------------------------------------


def _encode(message: ours.RingMessage) -> tuple[str, Any]:  # noqa: C901 - one case a message
    match message:
        case ours.Ballot(generation=generation, newest=newest):
            return "ballot", pb.RingBallot(generation=generation, newest=_tick(newest))
        case ours.Promise(generation=generation, history=history):
            return "promise", pb.RingPromise(generation=generation, history=_history(history))
        case ours.Denial(generation=generation, promised=promised):
            return "denial", pb.RingDenial(generation=generation, promised=promised)
        case ours.Fetch(generation=generation, after=after):
            return "fetch", pb.RingFetch(generation=generation, after=_tick(after))
        case ours.Tail(generation=generation, after=after):
            return "tail", pb.RingTail(generation=generation, after=_tick(after))
        case ours.Append(generation=generation, previous=previous, newest=newest, released=released):
            places = {"previous": _tick(previous), "newest": _tick(newest)}
            return "append", pb.RingAppend(generation=generation, released=released, **places)
        case ours.TicksHeld(generation=generation, upto=upto):
            return "ticks_held", pb.RingTicksHeld(generation=generation, upto=_tick(upto))
        case ours.TicksMissing(generation=generation, history=history):
            return "ticks_missing", pb.RingTicksMissing(generation=generation, history=_history(history))
        case ours.Register(store=store):
            return "register", pb.RingRegister(store=_store(store))
        case ours.Registered(promised=promised, stores=stores, history=history):
            counted = map(_store, stores)
            return "registered", pb.RingRegistered(promised=promised, stores=counted, history=_history(history))
        case ours.CopyRequest():
            return "copy_request", pb.RingCopyRequest()
        case ours.StoreCopy(receiver=receiver, promised=promised, stores=stores, history=history):
            copy = pb.RingStoreCopy(receiver=_store(receiver), promised=promised, history=_history(history))
            copy.stores.extend(map(_store, stores))
            return "store_copy", copy
        case ours.Replaced(by=by):
            return "replaced", pb.RingReplaced(by=_store(by))


Contents = tuple[TickContent, ...]
_DECODED: Final[Mapping[str, Callable[[Any, Contents], ours.RingMessage]]] = {
    "ballot": lambda told, _: ours.Ballot(told.generation, _mark(told.newest)),
    "promise": lambda told, _: ours.Promise(told.generation, _told_history(told.history)),
    "denial": lambda told, _: ours.Denial(told.generation, told.promised),
    "fetch": lambda told, _: ours.Fetch(told.generation, _mark(told.after)),
    "tail": lambda told, contents: ours.Tail(told.generation, _mark(told.after), _marks(contents)),
    "append": lambda told, contents: ours.Append(
        told.generation, _mark(told.previous), _marks(contents), _mark(told.newest), told.released
    ),
    "ticks_held": lambda told, _: ours.TicksHeld(told.generation, _mark(told.upto)),
    "ticks_missing": lambda told, _: ours.TicksMissing(told.generation, _told_history(told.history)),
    "register": lambda told, _: ours.Register(_store_id(told.store)),
    "registered": lambda told, _: ours.Registered(told.promised, _stores(told.stores), _told_history(told.history)),
    "copy_request": lambda _told, _: ours.CopyRequest(),
    "store_copy": lambda told, _: ours.StoreCopy(
        _store_id(told.receiver), told.promised, _stores(told.stores), _told_history(told.history)
    ),
    "replaced": lambda told, _: ours.Replaced(_store_id(told.by)),
}
