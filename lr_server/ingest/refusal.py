"""The replies of ingest, and the reasons of its refusals. Pure."""

from typing import NamedTuple

from queues.positions import Position
from queues.wire import ingest_pb2 as pb
from queues.words import cleaned


class Refusal(NamedTuple):
    """Why nothing of a request was stored; `last` is the last stored number, for GAP."""

    kind: pb.ProduceRefusal.Kind.ValueType
    reason: str
    last: int = 0
    leader: str = ""


def refused(sequence: int, refusal: Refusal) -> pb.ProduceReply:
    """Return the reply for a refused request."""
    kind, reason, last, leader = refusal
    told = pb.ProduceRefusal(kind=kind, reason=cleaned(reason), last_sequence=last)
    return pb.ProduceReply(sequence=sequence, refusal=told, leader=leader)


def stored(sequence: int, token: str, position: Position | None) -> pb.ProduceReply:
    """Return the reply for a stored request, or for the last stored one of a producer."""
    reply = pb.ProduceReply(sequence=sequence, token=token)
    if position is not None:
        place = reply.position
        place.branch, place.seq = position.branch, position.seq
    return reply
