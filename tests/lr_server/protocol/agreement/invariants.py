"""The invariants R1 to R9 of docs/ring.md, as checks of a state and of a step."""

from collections.abc import Sequence
from itertools import combinations

from lr_server.protocol.agreement.effects import (
    KeepPromise,
    KeepRecord,
    KeepStore,
    KeepTicks,
    Release,
    RingEffect,
    SendMessage,
    kept,
)
from lr_server.protocol.agreement.events import EntriesOffered, MessageCame, RingEvent, TryDue
from lr_server.protocol.agreement.generations import LEADING_RANKS, leader_of
from lr_server.protocol.agreement.history import TickHistory
from lr_server.protocol.agreement.messages import Append, Ballot, Promise, RingMessage, TicksHeld
from lr_server.protocol.agreement.record import MemberRecord
from lr_server.protocol.agreement.roles import Adopting, Following, Leading, Newcomer, Proposing, RingMember

DURABLE = (KeepPromise, KeepTicks, KeepStore, KeepRecord)


def begins(one: TickHistory, other: TickHistory) -> bool:
    """Return whether every tick of *one* is in *other*."""
    return one.end <= other.end and one.common_end(other) == one.end


def check_state(whole: Sequence[RingMember], released: TickHistory) -> None:
    """Check the members of one token that count against the ticks that any leader ever released."""
    majority = len(whole) - 1
    for member in whole:
        _check_member(member, whole, majority, released)
    for one, other in combinations(whole, 2):
        _check_logs(one.record.history, other.record.history)
    holders = [member for member in whole if begins(released, member.record.history)]
    assert len(holders) >= majority, f"R7: {released} was released, and is held by {len(holders)} members only"


def _check_member(member: RingMember, whole: Sequence[RingMember], majority: int, released: TickHistory) -> None:
    record, role = member.record, member.role
    assert record.history.newest.generation <= record.promised, f"R6: {record} holds a tick without its promise"
    if isinstance(role, Proposing | Adopting | Leading):
        assert record.rank in LEADING_RANKS, f"R1: rank {record.rank} leads"
        assert leader_of(role.generation) == record.rank, f"R1: rank {record.rank} leads {role.generation}"
    if isinstance(role, Adopting | Leading):
        assert record.promised == role.generation, f"R3: a leader of {role.generation} has promised {record.promised}"
        promised = [one for one in whole if one.record.promised >= role.generation]
        assert len(promised) >= majority, f"R3: {role.generation} is promised by {len(promised)} members only"
    if isinstance(role, Leading) and released.newest.generation <= role.generation:
        assert begins(released, record.history), f"R4: {record} leads without the released {released}"


def _check_logs(one: TickHistory, other: TickHistory) -> None:
    """Equal ticks have equal ticks before them."""
    shared = {start.generation for start in one.starts} & {start.generation for start in other.starts}
    seals = [{start.seal for start in log.starts if start.generation in shared} for log in (one, other)]
    assert seals[0] == seals[1], f"R3: a generation of {one} and {other} had two leaders"
    if shared:
        newest = max(start for start in one.starts if start.generation in shared)
        before = [log.until(newest.seal) for log in (one, other)]
        assert before[0] == before[1], f"R6: {one} and {other} share a tick, and differ before it"


def check_step(before: RingMember, event: RingEvent, after: RingMember, effects: Sequence[RingEffect]) -> None:
    """Check one step of a member: the order of its effects, and the reasons for them."""
    record = before.record
    for effect in effects:
        match effect:
            case KeepPromise(generation=generation):
                assert generation > record.promised, f"R2: {generation} is promised after {record.promised}"
                _check_promise(before, event)
            case KeepTicks(after=end, ticks=ticks):
                _check_ticks(before, after, record, end, ticks)
            case SendMessage(message=message):
                _check_message(before, event, record, message)
            case Release(upto=upto):
                role = after.role
                assert isinstance(role, Leading), "R7: a member releases that does not lead"
                assert upto <= max(role.held), f"R7: {upto} is released, and no follower holds it"
                assert role.seal <= upto, f"R5: {upto} is released before the seal {role.seal}"
        if isinstance(effect, DURABLE):
            record = kept(record, effect)
    assert isinstance(after.role, Newcomer) or record == after.record, (
        "a member believes to have stored more or less than it has"
    )
    if isinstance(event, EntriesOffered) and effects and isinstance(effects[0], DURABLE):
        assert isinstance(before.role, Leading), f"R8: entries are stored by a member that is {before.role}"


def _check_promise(before: RingMember, event: RingEvent) -> None:
    if isinstance(event, MessageCame) and isinstance(event.message, Ballot) and isinstance(before.role, Following):
        is_its_leader = before.record.promised > 0 and event.sender == leader_of(before.record.promised)
        assert not before.role.hears or is_its_leader, f"R9: {before} promises rank {event.sender} beside its leader"


def _check_ticks(before: RingMember, after: RingMember, record: MemberRecord, end: int, ticks: tuple) -> None:
    assert ticks
    if isinstance(before.role, Leading) and isinstance(after.role, Leading):
        assert end == record.history.end, "R4: a leader changes its own log"
    assert end >= before.released, f"R7: released ticks after {end} are removed"


def _check_message(before: RingMember, event: RingEvent, record: MemberRecord, message: RingMessage) -> None:
    match message:
        case Ballot():
            assert isinstance(event, TryDue), "R9: a generation begins without a cause"
            role = before.role
            if isinstance(role, Following) and role.hears:
                returns = role.is_level and record.rank < leader_of(record.promised)
                assert returns, f"R9: rank {record.rank} hears the leader of {record.promised} and proposes"
            assert not isinstance(role, Leading), "R9: a leader proposes"
        case Promise(generation=generation, history=history):
            assert record.promised == generation, f"R2: {generation} is promised in words before it is durable"
            assert history == record.history, "R2: a promise tells another log than the durable one"
        case TicksHeld(generation=generation, upto=upto):
            assert record.promised == generation, f"R6: ticks of {generation} are stored after {record.promised}"
            assert record.history.holds(upto), f"R7: tick {upto} is acknowledged before it is durable"
        case Append(ticks=ticks):
            assert all(map(record.history.holds, ticks)), "R7: ticks are sent before they are durable"
