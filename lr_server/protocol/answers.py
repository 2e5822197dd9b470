"""Check a sink's answers before a session believes them. Pure.

A sink with a defect, or a forged one, ends only its own session: every check raises `ProtocolError`. Nothing above the
sent entries is acknowledged, and no stored text breaks a database.
"""

from typing import Final

from lr_server.protocol.events import RefusalKind, Refused
from lr_server.protocol.histories import SinkHistory, StagedSnapshot, TickKey
from lr_server.protocol.replays import OrderedReplay
from queues.errors import InvalidPositionError, ProtocolError
from queues.positions import Position, Visibility
from queues.wire import replication_pb2 as pb
from queues.words import cleaned

#: Databases have signed 64-bit numbers.
LARGEST: Final = 2**63 - 1
#: The most characters of a branch or sync_id; both are 32 hexadecimal digits at present.
_LONGEST_NAME: Final = 200
#: The most characters of a cut, which lists the transactions that were running.
_LONGEST_CUT: Final = 1024 * 1024
#: The most headers in one answer; a sink sends at most 256.
_MOST_HEADERS: Final = 4096


class SentLog:
    """The log that one stream has sent after a position, and the acknowledgements that the sink may give for it."""

    def __init__(self, start: Position, earlier: "SentLog | None" = None) -> None:
        """Begin after *start*, which the sink has received.

        The sink may store the last frame of an *earlier* stream of the same history after the negotiation.
        """
        self._acked = start.seq
        #: The end of the newest sent frame, and the branches of all sent frames.
        self.sent_seq: int = max(start.seq, earlier.sent_seq if earlier else 0)
        self.branches: set[str] = {start.branch, *(earlier.branches if earlier else ())}
        self._cuts = {start.cut, ""}
        #: The position after all frames of this stream.
        self.end = start

    def note(self, end: Position) -> None:
        """Record that a frame up to *end* is about to be sent."""
        self.branches.add(end.branch)
        self.sent_seq = max(self.sent_seq, end.seq)
        self.end = end

    def accept(self, ack: pb.Ack) -> Position:
        """Return the acknowledged position; raise `ProtocolError` for a position that the sink cannot have."""
        received = ack.received
        if received.seq > self.sent_seq:
            raise ProtocolError(
                f"the sink acknowledges {received.seq}, but was sent entries up to {self.sent_seq} only"
            )
        if received.seq < self._acked:
            raise ProtocolError(f"the sink acknowledges {received.seq} after {self._acked}: entries are lost there")
        if received.branch not in self.branches:
            raise ProtocolError(f"the sink acknowledges a branch that was not sent: {cleaned(received.branch)!r}")
        if received.cut not in self._cuts:
            raise ProtocolError("the sink acknowledges the cut of another snapshot")
        _check_applied(ack.applied_seq, received)
        self._acked = received.seq
        return Position(received.branch, received.seq, received.cut)


class SentSnapshot:
    """The rows of a snapshot that one stream has sent, and the acknowledgements that the sink may give for them."""

    def __init__(self, sync_id: str, after_row: int, *, forgets: bool = False) -> None:
        """Begin after *after_row*, the last row that the sink has staged.

        A sink that first *forgets* rows of another build still acknowledges them for a while.
        """
        self._sync_id = sync_id
        #: The snapshot that begins first, so that the sink forgets its staged rows; empty once it has.
        self.replacing = f"not-{sync_id}" if forgets else ""
        self._acked = self._sent = after_row
        self._has_ended = False

    def note(self, row: int, *, is_end: bool) -> None:
        """Record that a frame up to *row* is about to be sent; *is_end*: the frame is the end marker."""
        self._sent = row
        self._has_ended = self._has_ended or is_end

    def counts(self, ack: pb.Ack) -> bool:
        """Return whether *ack* tells rows of the snapshot; answers to earlier frames do not.

        Raises `ProtocolError` for rows that the sink cannot have.
        """
        if self.replacing:
            if ack.staging.sync_id == self.replacing:
                self.replacing = ""
            return False
        if ack.sync_id == self._sync_id:
            if not self._has_ended:
                raise ProtocolError(f"the sink has snapshot {self._sync_id} complete before its end was sent")
            return True
        if ack.staging.sync_id != self._sync_id:
            return False
        rows = ack.staging.rows
        if not self._acked <= rows <= self._sent:
            raise ProtocolError(
                f"the sink acknowledges row {rows} of snapshot {self._sync_id}, "
                f"after {self._acked} were acknowledged and {self._sent} sent"
            )
        self._acked = rows
        return True


def history_of(answer: pb.NegotiateResponse) -> SinkHistory:
    """Convert the answer to a negotiation; raise `ProtocolError` if the answer contradicts itself or is absurd."""
    if len(answer.headers) > _MOST_HEADERS:
        raise ProtocolError(f"the sink answers with {len(answer.headers)} headers, above the limit of {_MOST_HEADERS}")
    staging = answer.staging
    _check_applied(answer.applied_seq, answer.received)
    return SinkHistory(
        received=position_of(answer.received),
        boundary_seq=_number(answer.boundary.seq, "the end of its last tick"),
        applied_seq=answer.applied_seq,
        headers=tuple(_tick_key(header) for header in answer.headers),
        staged=StagedSnapshot(_name(staging.sync_id, "sync_id"), _number(staging.rows, "a row"))
        if staging.sync_id
        else None,
        sync_id=_name(answer.sync_id, "sync_id"),
        undoes=answer.undoes,
    )


def replay_of(message: pb.ReplayOrder) -> OrderedReplay:
    """Convert an order for a replay; raise `ProtocolError` for numbers and texts that no sink has."""
    return OrderedReplay(
        _name(message.order_id, "id of an order"),
        _number(message.from_seq, "a sequence number"),
        _name(message.branch, "branch"),
        message.since_us,
    )


def position_of(message: pb.Position) -> Position:
    """Convert a position; raise `ProtocolError` for numbers and texts that no sink has."""
    if message.cut:
        _check_cut(message.cut)
    return Position(_name(message.branch, "branch"), _number(message.seq, "a sequence number"), message.cut)


def refused(refusal: pb.Refusal) -> Refused:
    """Convert a refusal; the sink's sentence is cut to a bounded length and has no control characters."""
    return Refused(RefusalKind(refusal.kind), cleaned(refusal.reason), min(refusal.known_generation, LARGEST))


def _tick_key(header: pb.TickHeader) -> TickKey:
    seq, uid = _number(header.end_seq, "the end of a tick"), _number(header.uid, "the uid of a tick")
    return TickKey(_name(header.branch, "branch"), seq, uid)


def _check_applied(applied_seq: int, received: pb.Position) -> None:
    if applied_seq > received.seq:
        raise ProtocolError(f"the sink has applied {applied_seq}, above {received.seq}, the end of the received log")


def _number(value: int, noun: str) -> int:
    if value > LARGEST:
        raise ProtocolError(f"the sink answers with {noun} of {value}, above {LARGEST}")
    return value


def _name(text: str, noun: str) -> str:
    if len(text) > _LONGEST_NAME or not text.isprintable():
        raise ProtocolError(f"the sink answers with a malformed {noun}: {cleaned(text, _LONGEST_NAME)!r}")
    return text


def _check_cut(text: str) -> None:
    if len(text) > _LONGEST_CUT:
        raise ProtocolError(f"the sink answers with a cut of {len(text)} characters")
    try:
        Visibility.parse(text)
    except InvalidPositionError as error:
        raise ProtocolError(f"the sink answers with a malformed cut: {cleaned(text)!r}") from error
