"""The sink's rule: the decision about a frame, given the received state (docs/design.md, "The sink's rule"). Pure.

Every frame passes one ordered list of checks:

    generation fence      STALE_LEADER
    addressed to us       WRONG_SITE
    negotiated            NO_STREAM_BEGIN
    history               NO_STREAM_BEGIN where the branch or its ticks are not the ones that this sink follows
    known already         skipped and counted as accepted, row by row
    exactly next          taken
    beyond that           GAP
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from queues.positions import Position
from queues.receive.marks import NOT_ENDED, ReceiveState, StagedRows
from queues.wire.replication_pb2 import Refusal

Kind: TypeAlias = "Refusal.Kind.ValueType"


@dataclass(frozen=True, slots=True)
class Refuse:
    """The frame is refused; nothing of it is stored. `known_generation` is told with STALE_LEADER."""

    kind: Kind
    reason: str
    known_generation: int = 0


@dataclass(frozen=True, slots=True)
class Nothing:
    """The frame is accepted, but its content was already stored."""


# --- admission --------------------------------------------------------------------------------------------------


#: No source may claim a higher generation, so that a later one is always possible.
LARGEST_GENERATION: Final = 2**62
#: A sink that knows a source believes generations up to this number above the newest known one.
LARGEST_STEP: Final = 2**20


class Speaker(NamedTuple):
    """The source, sink, client and generation that a frame claims; a negotiation names the `installation` too."""

    source: str
    sink: str
    client: str
    generation: int
    installation: str = ""


def admit(marks: ReceiveState, speaker: Speaker, site: str, *, negotiated: bool) -> Refuse | None:
    """Return the refusal if *speaker* may not write here; None if it may."""
    if speaker.generation < marks.generation:
        reason = f"generation {speaker.generation} of {speaker.source} was replaced by {marks.generation}"
        return Refuse(Refusal.STALE_LEADER, reason, marks.generation)
    if speaker.generation > believable(marks.generation):
        reason = f"generation {speaker.generation} of {speaker.source} is far above {marks.generation}, the newest here"
        return Refuse(Refusal.PROTOCOL, f"{reason}: if it is right, run `lrq fence reset {speaker.source}` here")
    if speaker.sink != site:
        return Refuse(Refusal.WRONG_SITE, f"this is site {site!r}, not {speaker.sink!r}: correct the peer's address")
    if not negotiated:
        reason = f"{speaker.source} has not negotiated this stream, or a newer one has taken its place"
        return Refuse(Refusal.NO_STREAM_BEGIN, reason)
    return None


def follows(marks: ReceiveState, version: int, generation: int, number: int | None, left: int | None) -> bool:
    """Return whether a frame belongs to the only stream that may change the *marks*, which have this *version*.

    *number* is the version that the negotiation has left, as the stream tells it; None for a stream without one. *left*
    is the version after the stream's last frame, None before the first. So the frames of a stream are a chain of
    compare-and-sets which begins at its negotiation. Every other write ends the chain, through any server.
    """
    return number is not None and generation == marks.generation and version == (number if left is None else left)


def believable(known: int) -> int:
    """Return the highest generation that a sink believes of a source; *known* is the newest, 0 if there was none.

    Each takeover raises a generation by one, so only a mistaken or forged source is far above.
    """
    return min(known + LARGEST_STEP, LARGEST_GENERATION) if known else LARGEST_GENERATION


# --- log entries ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FrameTick:
    """A tick, or a part of one, without its payloads; row k of it is row `first_index + k` of the tick."""

    branch: str
    start_seq: int
    end_seq: int
    rows: int = 0
    first_index: int = 0
    complete: bool = True

    @property
    def after_seq(self) -> int:
        """The sequence number before the first row."""
        return self.start_seq + self.first_index

    @property
    def upto_seq(self) -> int:
        """The sequence number that the sink has reached after this tick or part."""
        return self.end_seq if self.complete else self.after_seq + self.rows


class TickPlace(NamedTuple):
    """The end of the received log: complete up to `boundary`, plus `seq - boundary` rows of the next tick."""

    branch: str
    seq: int
    boundary: int

    @property
    def is_open(self) -> bool:
        """Whether only a part of a tick has arrived."""
        return self.seq > self.boundary


class Advance(NamedTuple):
    """The place after a group; its first `skip` rows are known already; `begins`: it is the first group of its tick."""

    place: TickPlace
    skip: int
    begins: bool


@dataclass(frozen=True, slots=True)
class TakeBatch:
    """Store the rows of each group that its step does not skip, together with these marks."""

    marks: ReceiveState
    steps: tuple[Advance, ...]


def decide_batch(
    marks: ReceiveState, start: Position, groups: Sequence[FrameTick], *, cut_passed: bool
) -> TakeBatch | Refuse:
    """Decide about all entries for a session from *start* up to the end of the last group.

    The sequence numbers between two groups, and between *start* and the first group, hold no entry for the session.
    A source sends entries only when no snapshot is left to send, so the marks then name no staged one.
    """
    place = _begin(marks, start)
    if isinstance(place, Refuse):
        return place
    steps: list[Advance] = []
    reached = 0
    for group in groups:
        if group.after_seq < reached:
            return Refuse(Refusal.CORRUPT, f"the groups of a batch overlap at {reached}")
        reached = group.upto_seq
        step = advance(place, group)
        if isinstance(step, Refuse):
            return step
        place = step.place
        steps.append(step)
    skipped = sum(step.skip for step in steps)
    return TakeBatch(
        marks=replace(
            marks,
            # The cut is kept in the middle of a tick: a rollback to the tick's beginning would need it again.
            received=Position(place.branch, place.seq, _cut(marks, start, passed=cut_passed and not place.is_open)),
            boundary_seq=place.boundary,
            staging=StagedRows() if groups else marks.staging,
            entries_total=marks.entries_total + sum(group.rows for group in groups) - skipped,
            duplicates_total=marks.duplicates_total + skipped,
            ended_seq=marks.ended_seq if place.seq == marks.received.seq else NOT_ENDED,
        ),
        steps=tuple(steps),
    )


def _begin(marks: ReceiveState, start: Position) -> TickPlace | Refuse:
    received = marks.received
    if not received.branch:
        return TickPlace(start.branch, start.seq, start.seq)
    place = TickPlace(received.branch, received.seq, marks.boundary_seq)
    at_our_end = start.seq == place.seq and not place.is_open
    if start.branch != place.branch and not at_our_end:
        return _other_history(f"a batch from {start.branch}@{start.seq}", place)
    if start.seq > place.seq:
        return Refuse(Refusal.GAP, f"the batch begins after {start.seq}, but only {place.seq} was received")
    return place


def _cut(marks: ReceiveState, start: Position, *, passed: bool) -> str:
    cut = marks.received.cut if marks.received.branch else start.cut
    return "" if passed and cut == start.cut else cut


def advance(place: TickPlace, group: FrameTick) -> Advance | Refuse:
    """Decide about one group at *place*."""
    if group.after_seq + group.rows > group.end_seq:
        return Refuse(Refusal.CORRUPT, f"a tick up to {group.end_seq} has more rows than sequence numbers")
    if group.branch != place.branch:
        if place.is_open or group.start_seq < place.boundary:
            return _other_history(f"a tick after {group.branch}@{group.start_seq}", place)
        place = place._replace(branch=group.branch)
    if group.end_seq <= place.boundary:
        return Advance(place, skip=group.rows, begins=False)
    if group.start_seq < place.boundary:
        return _other_history(f"a tick from {group.start_seq} to {group.end_seq}", place)
    known = place.seq - place.boundary if group.start_seq == place.boundary else 0
    if group.first_index > known or (place.is_open and group.start_seq > place.boundary):
        return Refuse(Refusal.GAP, f"rows of a tick are missing between {place.seq} and {group.after_seq}")
    return _extend(group, known)


def _extend(group: FrameTick, known: int) -> Advance | Refuse:
    total = group.first_index + group.rows
    if group.complete and total < known:
        return Refuse(Refusal.CORRUPT, f"the tick up to {group.end_seq} had {known} rows and now has {total}")
    reached = group.end_seq if group.complete else group.start_seq + max(known, total)
    # If every number of the tick is taken, no row can be missing, even before the part marked as complete.
    boundary = reached if reached == group.end_seq else group.start_seq
    skip = min(known - group.first_index, group.rows)
    begins = known == 0 and (group.complete or group.rows > 0)
    return Advance(TickPlace(group.branch, reached, boundary), skip, begins)


def _other_history(what: str, place: TickPlace) -> Refuse:
    reason = f"{what} does not continue {place.branch}@{place.seq} (tick end {place.boundary}): negotiate"
    return Refuse(Refusal.NO_STREAM_BEGIN, reason)


# --- rollback ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RollbackTo:
    """Delete the rows and headers after `marks.received`, and store these marks."""

    marks: ReceiveState


def decide_rollback(
    marks: ReceiveState, target: Position, applied_seq: int, *, known: bool, undoes: bool = False
) -> Nothing | RollbackTo | Refuse:
    """Decide whether all entries after the header at *target* may be deleted; *known*: that header is stored.

    Applied entries may be deleted only if the subscriber *undoes* them.
    """
    received = marks.received
    at_boundary = target.seq == marks.boundary_seq and target.branch == received.branch
    if at_boundary and received.seq == marks.boundary_seq:
        return Nothing()
    if target.seq > marks.boundary_seq or not (known or at_boundary):
        return Refuse(Refusal.NO_STREAM_BEGIN, f"no header {target.branch}@{target.seq} is kept here to roll back to")
    if target.seq < applied_seq and not undoes:
        reason = f"entries up to {applied_seq} were applied, so nothing can go back to {target.seq}"
        return Refuse(Refusal.CONSUMED, reason)
    return RollbackTo(
        replace(
            marks,
            received=Position(target.branch, target.seq, received.cut),
            boundary_seq=target.seq,
            ended_seq=NOT_ENDED,
        )
    )


# --- the end of the stream --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EndHere:
    """Store these marks: the stream has ended at the received position."""

    marks: ReceiveState


def decide_end_of_stream(marks: ReceiveState, end: Position) -> Nothing | EndHere | Refuse:
    """Decide about the end of the stream after *end*: all entries of the source must be here, and no others."""
    received = marks.received
    if end.seq > received.seq or received.seq != marks.boundary_seq:
        return Refuse(Refusal.GAP, f"the stream ends after {end.seq}, but only {marks.boundary_seq} is complete here")
    if (end.branch, end.seq) != (received.branch, received.seq):
        reason = f"the stream ends at {end.branch}@{end.seq}, not at {received.branch}@{received.seq}: negotiate"
        return Refuse(Refusal.NO_STREAM_BEGIN, reason)
    return Nothing() if marks.has_ended else EndHere(replace(marks, ended_seq=received.seq))
