"""Every message between members crosses the wire unchanged; damaged frames are refused in one sentence."""

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_server.protocol.agreement.history import GenerationStart, TickHistory, TickMark
from lr_server.protocol.agreement.messages import (
    Append,
    Ballot,
    CopyRequest,
    Denial,
    Fetch,
    Promise,
    Register,
    Registered,
    Replaced,
    StoreCopy,
    Tail,
    TicksHeld,
    TicksMissing,
)
from lr_server.protocol.agreement.record import StoreId
from lr_server.ring.codec import AddressedParcel, RingAddress, decode_parcel, encode_parcel
from lr_server.ring.edge import RingParcel
from lr_server.ring.store import mark_of
from lr_server.ring.tick_codec import decode_tick, encode_tick
from queues.errors import ProtocolError
from queues.names import ClientName
from queues.send_log.outbox import SourceTransaction
from queues.send_log.producers import MAX_SEQUENCE, ProducerKey
from queues.send_log.ring.tick_contents import LogEnd, content_after, empty_end, seal_after
from queues.send_log.ring.tick_productions import TickProduction
from queues.wire import ring_pb2 as pb
from tests.lr_server.ring.stores import CLIENT, new_entry, stamp, transaction

SEAL = seal_after(empty_end("origin"), 2, "second", stamp())
OTHER = ClientName("claims")
SEVERAL = content_after(
    LogEnd(2, SEAL.tick),
    [
        transaction(b"one", b"two" * 900, to=["tokyo", "lima"]),
        transaction(b"", item_key="car", headers='{"a":"b"}'),
        SourceTransaction(OTHER, [new_entry(b"four", "lima", client=OTHER, partition_key="key")]),
    ],
    stamp(),
    [
        TickProduction(ProducerKey(CLIENT, "meter"), 5, MAX_SEQUENCE, 4, 2),
        TickProduction(ProducerKey(OTHER, "gauge"), MAX_SEQUENCE, 0, 0, 4),
    ],
)
HISTORY = TickHistory((GenerationStart(2, 1), GenerationStart(5, 9)), 12)
STORES = (StoreId(1, 2**62 - 1), StoreId(2, 5), StoreId(3, 6))
MESSAGES = [
    Ballot(4, TickMark(2, 7)),
    Promise(4, HISTORY),
    Promise(4, TickHistory()),
    Denial(4, 5),
    Fetch(4, TickMark(0, 0)),
    Tail(4, TickMark(0, 0), (mark_of(SEAL), mark_of(SEVERAL))),
    Append(4, TickMark(0, 0), (mark_of(SEAL), mark_of(SEVERAL)), TickMark(2, 2), 1),
    Append(4, TickMark(3, 3), (), TickMark(3, 3), 0),
    TicksHeld(4, TickMark(3, 3)),
    TicksMissing(4, HISTORY),
    Register(StoreId(7, 8)),
    Registered(4, STORES, HISTORY),
    CopyRequest(),
    StoreCopy(StoreId(1, 1), 4, STORES, HISTORY),
    Replaced(StoreId(3, 3)),
]


def parcel_of(message) -> AddressedParcel:
    contents = (SEAL, SEVERAL) if getattr(message, "ticks", ()) else ()
    return AddressedParcel(RingAddress("paris", 7), 1, RingParcel(0, StoreId(4, 44), message, contents))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_crosses_the_wire_unchanged(message):
    sent = parcel_of(message)
    assert decode_parcel(encode_parcel(sent)) == sent


numbers = st.integers(0, MAX_SEQUENCE)
productions = st.builds(
    TickProduction,
    st.builds(ProducerKey, st.text().map(ClientName), st.text()),
    numbers,
    numbers,
    numbers,
    st.integers(0, 2**32 - 1),
)


@given(st.lists(productions))
def test_the_requests_of_a_tick_cross_the_wire_unchanged(asked: list[TickProduction]):
    """Whether they fit the tick is the store's question."""
    content = SEVERAL._replace(productions=tuple(asked))
    assert decode_tick(encode_tick(content)) == content


def test_every_message_of_the_agreement_is_among_the_examples():
    from lr_server.protocol.agreement.messages import RingMessage

    assert {type(message) for message in MESSAGES} == set(RingMessage.__args__)


def broken_frames() -> dict[str, bytes]:
    frame = pb.RingFrame.FromString(encode_parcel(parcel_of(MESSAGES[6])))

    def changed(**fields) -> bytes:
        copy = pb.RingFrame()
        copy.CopyFrom(frame)
        copy.MergeFrom(pb.RingFrame(**fields))
        return copy.SerializeToString()

    many, bare, torn, unset, beyond = (pb.RingFrame.FromString(frame.SerializeToString()) for _ in range(5))
    many.ticks.extend([frame.ticks[0]] * 64)
    bare.ClearField("append")
    torn.ticks[1].rows.body = torn.ticks[1].rows.body[:-1] + b"\0"
    del unset.ticks[1].row_sets[-1]
    beyond.ticks[1].productions[1].sequence += 1
    huge = pb.RingFrame(sender=0, receiver=1, denial=pb.RingDenial(generation=2, promised=2**63))
    stores = pb.RingFrame(sender=0, receiver=1, registered=pb.RingRegistered(promised=1))
    history = pb.RingFrame(sender=0, receiver=1, promise=pb.RingPromise(history=pb.RingHistory(end=4)))
    return {
        "no frame": b"\xff\xff",
        "a rank too many": changed(sender=3),
        "a message to itself": changed(sender=1),
        "too many ticks": many.SerializeToString(),
        "no message": bare.SerializeToString(),
        "a damaged block": torn.SerializeToString(),
        "a row without a set": unset.SerializeToString(),
        "a number beyond every store": huge.SerializeToString(),
        "a request beyond every store": beyond.SerializeToString(),
        "stores of too few members": stores.SerializeToString(),
        "a history without beginnings": history.SerializeToString(),
    }


@pytest.mark.parametrize("fault", sorted(broken_frames()))
def test_a_broken_frame_is_refused(fault: str):
    with pytest.raises(ProtocolError):
        decode_parcel(broken_frames()[fault])


@given(st.integers(0, 2**32))
def test_a_frame_with_changed_bytes_is_refused_or_is_another_frame(seed: int):
    """No damage raises an error of another kind; the connection's own checksums find it long before."""
    chance = Random(seed)
    encoded = bytearray(encode_parcel(parcel_of(MESSAGES[chance.choice([1, 5, 6, 11])])))
    for _ in range(chance.randrange(1, 4)):
        encoded[chance.randrange(len(encoded))] = chance.randrange(256)
    with suppress(ProtocolError):
        decode_parcel(bytes(encoded))
