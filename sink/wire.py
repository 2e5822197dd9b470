"""Convert frames to the types of `sink.protocol` and back. Pure."""

from typing import NamedTuple

from queues.errors import CorruptFrameError, InvalidPositionError
from queues.lineage import TOLD_BRANCHES, BranchOrigin
from queues.names import SiteId, site_id
from queues.positions import Header, PgSnapshot, Position
from queues.receive.replays import ReplayOrder
from queues.wire import replication_pb2 as pb
from queues.words import cleaned
from sink.protocol.log_rules import FrameTick, Refuse, Speaker
from sink.protocol.snapshot_rules import SnapshotClaim

# Databases have signed 64-bit numbers.
_LIMIT = 2**63
_LONGEST_INSTALLATION = 200
# The longest names and lists of transactions of a branch, in characters.
_LONGEST = 256
_LONGEST_INHERITED = 32_768


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
    """Convert the parts of a tick's header by which a source finds the tick.

    Beside very many transactions, the visibilities of all ticks would make an answer larger than sources accept.
    """
    return pb.TickHeader(branch=header.branch, end_seq=header.seq, uid=header.uid)


def branches_of(message: pb.NegotiateRequest) -> list[BranchOrigin]:
    """Convert the branches of a source; raises `CorruptFrameError` for malformed or too many ones."""
    if len(message.branches) > TOLD_BRANCHES:
        raise CorruptFrameError(f"the source tells {len(message.branches)} branches, at most {TOLD_BRANCHES} are taken")
    told = [BranchOrigin(each.branch, each.timeline, each.inherited) for each in message.branches]
    for each in told:
        if len(each.inherited) > _LONGEST_INHERITED or any("\0" in text or len(text) > _LONGEST for text in each[:2]):
            raise CorruptFrameError("the source tells a branch that is too long to be one")
        if each.inherited:
            try:
                PgSnapshot.parse(each.inherited)
            except InvalidPositionError as error:
                raise CorruptFrameError("the source tells a branch that has inherited no list of ids") from error
    return told


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


class ActiveChoice(NamedTuple):
    """The member of a group of replicas that serves, as a source tells it."""

    name: SiteId
    member: SiteId
    generation: int


def active_of(message: pb.ActiveMember) -> ActiveChoice:
    """Convert the member that serves; raises `CorruptFrameError` or `InvalidNameError` for a malformed one."""
    return ActiveChoice(
        site_id(message.group), site_id(message.member), _number(message.generation, "the generation of a member")
    )


class ReplayWord(NamedTuple):
    """The answer of a source to an order: entries after the tick `after` come again, or the refusal."""

    order_id: str
    after: Header
    refusal: str


def replay_word_of(message: pb.ReplayAnswer) -> ReplayWord:
    """Convert the answer of a source; raises `CorruptFrameError` for one without a tick and without a refusal."""
    if not message.refusal and not message.HasField("after"):
        raise CorruptFrameError("the source answers an order for a replay with neither a tick nor a refusal")
    return ReplayWord(message.order_id, header_of(message.after), cleaned(message.refusal))


def to_replay(order: ReplayOrder) -> pb.ReplayOrder:
    """Convert an order for the source."""
    wish = order.wish
    return pb.ReplayOrder(order_id=order.order_id, from_seq=wish.from_seq, branch=wish.branch, since_us=wish.since_us)


def to_refusal(refuse: Refuse) -> pb.Refusal:
    """Convert a refusal; its reason may hold words of a caller or of the database."""
    return pb.Refusal(kind=refuse.kind, reason=cleaned(refuse.reason), known_generation=refuse.known_generation)
