"""Several requests in one message of a producer's stream, and several replies in another (proto/ingest.proto). Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from queues.wire import ingest_pb2 as pb

#: The most bytes of a message with several requests.
TOGETHER_BYTES: Final = 256 * 1024
#: A sender that has so many bytes of requests for one message takes no further ones.
ENOUGH_BYTES: Final = 64 * 1024
#: The most replies of one message; a reply has a few hundred bytes.
TOGETHER_REPLIES: Final = 256
#: The metadata of a stream whose first request may be long on its way: the server waits for that request.
EXPECTS_LARGE: Final = ("lrq-expects", "large")
#: A producer with so many bytes of requests says so; a line of 64 kbit/s needs a second for them.
LARGE_BYTES: Final = 8 * 1024
# The first byte of a message that has nothing but `requests`: the field's number, and its values' type.
_FIRST: Final = pb.ProduceRequest.REQUESTS_FIELD_NUMBER << 3 | 2
# The most bytes that a request takes beside its own.
_FRAMING: Final = 8


def packed(requests: Iterable[bytes]) -> Iterator[bytes]:
    """Yield messages that carry *requests* in order, as few as possible; a large request travels alone."""
    group: list[bytes] = []
    size = 0
    for request in requests:
        if group and size + len(request) + _FRAMING > TOGETHER_BYTES:
            yield pb.ProduceRequest(requests=group).SerializeToString()
            group, size = [], 0
        if len(request) + _FRAMING > TOGETHER_BYTES:
            yield request
        else:
            group.append(request)
            size += len(request) + _FRAMING
    if group:
        yield pb.ProduceRequest(requests=group).SerializeToString()


def requests_in(message: bytes) -> Sequence[bytes]:
    """Return the requests that travel together in *message*, in order; none if the message is a request itself.

    A malformed message counts as a request, so that the server refuses it as one.
    """
    if not message or message[0] != _FIRST or len(message) > TOGETHER_BYTES:
        return ()
    try:
        found = pb.ProduceRequest.FromString(message)
    except DecodeError:
        return ()
    is_pure = len(found.ListFields()) == 1 and all(found.requests)
    return found.requests if is_pure else ()


def together(replies: Sequence[pb.ProduceReply]) -> pb.ProduceReply:
    """Return one message with *replies*, which are at least one."""
    return replies[0] if len(replies) == 1 else pb.ProduceReply(replies=replies)


def replies_in(reply: pb.ProduceReply) -> Sequence[pb.ProduceReply]:
    """Return the replies that travel together in *reply*, or the single one."""
    return reply.replies or (reply,)
