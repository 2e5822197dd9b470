"""The words of a transcript for events, effects, messages and states."""

from dataclasses import fields

from lr_server.protocol.agreement import effects as do
from lr_server.protocol.agreement.events import (
    BeatDue,
    EntriesOffered,
    FollowersUnheard,
    FollowerUnheard,
    LeaderUnheard,
    MessageCame,
    RingEvent,
    TryDue,
)
from lr_server.protocol.agreement.history import TickHistory, TickMark
from lr_server.protocol.agreement.messages import RingMessage
from lr_server.protocol.agreement.record import StoreId
from lr_server.protocol.agreement.roles import Adopting, Following, Leading, Proposing, Retired, Role


def name_of(rank: int) -> str:
    return f"B{rank + 1}"


def event_of(event: RingEvent) -> str:
    if isinstance(event, MessageCame):
        return f"hears {name_of(event.sender)}: {message_of(event.message)}"
    if isinstance(event, FollowerUnheard):
        return f"hears nothing of {name_of(event.rank)}"
    return {
        TryDue: "tries",
        BeatDue: "sends its sign of life",
        LeaderUnheard: "hears no leader",
        FollowersUnheard: "hears no follower",
        EntriesOffered: "is offered entries",
    }[type(event)]


def effect_of(effect: do.RingEffect) -> str:
    match effect:
        case do.KeepPromise(generation=generation):
            return f"writes: promise {generation}"
        case do.KeepTicks(after=after, ticks=ticks):
            return f"writes: {_marks(ticks)} after tick {after}"
        case do.KeepStore(rank=rank, store=store):
            return f"writes: {name_of(rank)} has store {store.number}"
        case do.KeepRecord(record=record):
            return f"writes: promise {record.promised}, log {history_of(record.history)}"
        case do.SendMessage(to=to, message=message):
            return f"sends {name_of(to)}: {message_of(message)}"
        case do.Release(upto=upto):
            return f"RELEASES up to tick {upto}"
        case do.Decline(leader=leader, reason=reason):
            return f"declines: {reason}" + (f", ask {name_of(leader)}" if leader is not None else "")
        case do.TryAfter(attempt=attempt):
            return f"tries again after a pause, denied {attempt} times"
        case do.Alarm(words=words):
            return f"alarm: {words}"
        case do.Disregarded(why=why):
            return f"disregards it: {why}"


def message_of(message: RingMessage) -> str:
    values = [_value(field.name, getattr(message, field.name)) for field in fields(message)]
    return " ".join([type(message).__name__, ", ".join(filter(None, values))]).strip()


def _value(name: str, value: object) -> str:
    match value:
        case TickHistory():
            return f"log {history_of(value)}"
        case TickMark():
            return f"{name} {value.generation}:{value.seq}"
        case StoreId():
            return f"store {value.number}"
        case tuple() if name == "ticks":
            return _marks(value)
        case tuple():
            return "stores " + "/".join(str(store.number) for store in value)
    return f"{value}" if name == "generation" else f"{name} {value}"


def _marks(ticks: tuple[TickMark, ...]) -> str:
    return " ".join(f"{tick.generation}:{tick.seq}" for tick in ticks)


def history_of(history: TickHistory) -> str:
    later = [start.seal - 1 for start in history.starts[1:]]
    spans = zip(history.starts, [*later, history.end], strict=False)
    return " ".join(_span(start.generation, start.seal, end) for start, end in spans) or "empty"


def _span(generation: int, first: int, last: int) -> str:
    return f"{generation}:{first}" if first == last else f"{generation}:{first}-{last}"


def role_of(role: Role) -> str:
    match role:
        case Following(hears=hears):
            return "follows" if hears else "follows, and hears no leader"
        case Proposing(generation=generation):
            return f"proposes {generation}"
        case Adopting(generation=generation, source=source):
            return f"adopts the log of {name_of(source)} for {generation}"
        case Leading(generation=generation):
            return f"leads {generation}"
        case Retired():
            return "is retired"
    return {"Newcomer": "is a newcomer", "Fenced": "is fenced"}[type(role).__name__]
