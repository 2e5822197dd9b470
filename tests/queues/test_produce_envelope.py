"""Requests and replies that travel together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.produce_envelope import TOGETHER_BYTES, packed, replies_in, requests_in, together
from queues.wire import ingest_pb2 as pb

SIZES = st.lists(st.sampled_from([1, 7, 1_000, 100_000, TOGETHER_BYTES - 8, TOGETHER_BYTES, TOGETHER_BYTES + 1]))


@given(SIZES)
def test_requests_travel_in_order_and_each_message_with_several_is_within_its_limit(sizes: list[int]) -> None:
    requests = [b"\x0a" + bytes(size) for size in sizes]
    messages = list(packed(requests))
    assert [each for message in messages for each in (requests_in(message) or (message,))] == requests
    assert all(len(message) <= TOGETHER_BYTES for message in messages if requests_in(message))


def test_small_requests_share_one_message() -> None:
    assert len(list(packed([b"\x0ax"] * 1_000))) == 1


@pytest.mark.parametrize(
    "message",
    [
        b"",
        pb.ProduceRequest(client="c", sequence=1).SerializeToString(),
        pb.ProduceRequest(requests=[b"a"], sequence=1).SerializeToString(),
        pb.ProduceRequest(requests=[b"a", b""]).SerializeToString(),
        pb.ProduceRequest(requests=[bytes(TOGETHER_BYTES)]).SerializeToString(),
        b"\x32\xff",
    ],
    ids=["nothing", "a request", "mixed", "empty inside", "large", "cut"],
)
def test_another_message_counts_as_a_request_itself(message: bytes) -> None:
    assert not requests_in(message)


def test_replies_travel_together_and_a_single_one_as_itself() -> None:
    replies = [pb.ProduceReply(sequence=number) for number in range(1, 4)]
    assert list(replies_in(together(replies))) == replies
    assert together(replies[:1]) == replies[0]
    assert list(replies_in(replies[0])) == replies[:1]
