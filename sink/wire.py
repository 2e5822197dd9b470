"""Frames in the terms that decisions are made in, and back. Pure."""

from queues.errors import CorruptFrameError
from queues.positions import Header, Position
from queues.wire import replication_pb2 as pb
from sink.machine import Group, Refuse, Speaker
from sink.staging import Claim

# Databases count in signed 64 bits.
_LIMIT = 2**63


def _number(value: int, what: str) -> int:
    if value >= _LIMIT:
        raise CorruptFrameError(f"{what} {value} is not below 2**63")
    return value


def position_of(message: pb.Position) -> Position:
    """Read a position."""
    return Position(message.branch, _number(message.seq, "the sequence number"), message.cut)


def to_position(position: Position) -> pb.Position:
    """Undo `position_of`."""
    return pb.Position(branch=position.branch, seq=position.seq, cut=position.cut)


def header_of(message: pb.TickHeader) -> Header:
    """Read what both sides keep of a tick."""
    uid = _number(message.uid, "the uid of a tick")
    return Header(message.branch, _number(message.end_seq, "the end of a tick"), uid, message.mark)


def to_header(header: Header) -> pb.TickHeader:
    """Undo `header_of`; where the tick began is not kept."""
    return pb.TickHeader(branch=header.branch, end_seq=header.seq, uid=header.uid, mark=header.mark)


def group_of(message: pb.TickGroup) -> Group:
    """Read the shape of a group; its block stays packed."""
    header = message.header
    return Group(
        branch=header.branch,
        start_seq=header.start_seq,
        end_seq=_number(header.end_seq, "the end of a tick"),
        rows=message.block.rows,
        first_index=message.first_index,
        complete=message.complete,
    )


def claim_of(message: pb.SnapshotEnd) -> Claim:
    """Read an end marker."""
    return Claim(message.sync_id, position_of(message.base), message.rows, message.bytes, message.checksum)


def speaker_of(message: pb.SessionId) -> Speaker:
    """Read who speaks."""
    generation = _number(message.generation, "the generation")
    return Speaker(message.source, message.sink, message.client, generation)


def to_refusal(refuse: Refuse) -> pb.Refusal:
    """Say no."""
    return pb.Refusal(kind=refuse.kind, reason=refuse.reason)
