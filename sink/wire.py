"""Convert frames to the types of `sink.protocol` and back. Pure."""

from queues.errors import CorruptFrameError
from queues.positions import Header, Position
from queues.wire import replication_pb2 as pb
from queues.words import cleaned
from sink.protocol.log_rules import FrameTick, Refuse, Speaker
from sink.protocol.snapshot_rules import SnapshotClaim

# Databases have signed 64-bit numbers.
_LIMIT = 2**63
_LONGEST_INSTALLATION = 200


def _number(value: int, what: str) -> int:
    if value >= _LIMIT:
        raise CorruptFrameError(f"{what} {value} is not below 2**63")
    return value


def position_of(message: pb.Position) -> Position:
    """Convert a position; raises `CorruptFrameError` for a number of 2**63 or more."""
    return Position(message.branch, _number(message.seq, "the sequence number"), message.cut)


def to_position(position: Position) -> pb.Position:
    """Convert back from `position_of`."""
    return pb.Position(branch=position.branch, seq=position.seq, cut=position.cut)


def header_of(message: pb.TickHeader) -> Header:
    """Convert a tick's header to the part that both sides keep."""
    uid = _number(message.uid, "the uid of a tick")
    return Header(message.branch, _number(message.end_seq, "the end of a tick"), uid, message.mark)


def to_header(header: Header) -> pb.TickHeader:
    """Convert back from `header_of`; the tick's start is not kept."""
    return pb.TickHeader(branch=header.branch, end_seq=header.seq, uid=header.uid, mark=header.mark)


def group_of(message: pb.TickGroup) -> FrameTick:
    """Convert the fields of a group except its block, which stays packed."""
    header = message.header
    return FrameTick(
        branch=header.branch,
        start_seq=header.start_seq,
        end_seq=_number(header.end_seq, "the end of a tick"),
        rows=message.block.rows,
        first_index=message.first_index,
        complete=message.complete,
    )


def claim_of(message: pb.SnapshotEnd) -> SnapshotClaim:
    """Convert an end marker."""
    return SnapshotClaim(message.sync_id, position_of(message.base), message.rows, message.bytes, message.checksum)


def speaker_of(message: pb.SessionId) -> Speaker:
    """Convert the names and the generation of a session."""
    generation = _number(message.generation, "the generation")
    if len(message.installation) > _LONGEST_INSTALLATION:
        raise CorruptFrameError(f"the name of an installation has {len(message.installation)} characters")
    return Speaker(message.source, message.sink, message.client, generation, message.installation)


def to_refusal(refuse: Refuse) -> pb.Refusal:
    """Convert a refusal; its reason may hold words of a caller or of the database."""
    return pb.Refusal(kind=refuse.kind, reason=cleaned(refuse.reason), known_generation=refuse.known_generation)
