"""Scenarios as plain text: commands to the three members of one token, and the reactions of the machines.

A file of `transcripts/` has a title, then paragraphs. A line that begins with `> ` is a command of `RingTranscript`;
the machines write the lines after the command. B1, B2 and B3 are the members of the ranks 0, 1 and 2. A log such as
`2:1-3 5:4` has the ticks 1 to 3 of generation 2, and tick 4 of generation 5. `LRQ_WRITE_TRANSCRIPTS=1` lets the test
write the files again.
"""

from collections.abc import Sequence
from dataclasses import fields

from lr_server.protocol.agreement import effects as do
from lr_server.protocol.agreement.events import (
    BeatDue,
    EntriesOffered,
    FollowersUnheard,
    LeaderUnheard,
    MessageCame,
    RingEvent,
    TryDue,
)
from lr_server.protocol.agreement.history import TickHistory, TickMark
from lr_server.protocol.agreement.messages import RingMessage
from lr_server.protocol.agreement.record import MemberRecord, StoreId
from lr_server.protocol.agreement.roles import Adopting, Following, Leading, Proposing, Retired, Role
from tests.lr_server.protocol.agreement.world import MemberKey, RingWorld


class RingTranscript(RingWorld):
    """A world with one token that records each step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lines: list[str] = []
        self._crash_after: int | None = None
        self._kept: dict[MemberKey, MemberRecord] = {}

    def command(self, words: str) -> None:
        """Carry out one command; raise `AttributeError` for an unknown one."""
        name, *arguments = words.split()
        getattr(self, f"do_{name.replace('-', '_')}")(*map(_argument, arguments))

    # --- the commands -----------------------------------------------------------------------------------------

    def do_try(self, key: MemberKey) -> None:
        """Let a member look whether it should lead."""
        self._react(key, TryDue())

    def do_beat(self, key: MemberKey) -> None:
        """Let a leader send its sign of life."""
        self._react(key, BeatDue())

    def do_unheard(self, key: MemberKey) -> None:
        """Tell a member that its leader is silent."""
        self._react(key, LeaderUnheard())

    def do_stall(self, key: MemberKey) -> None:
        """Tell a leader that its followers are silent."""
        self._react(key, FollowersUnheard())

    def do_offer(self, key: MemberKey) -> None:
        """Offer entries of producers to a member."""
        self._react(key, EntriesOffered())

    def do_deliver(self, messages: int = 500) -> None:
        """Deliver messages in their order, and the answers."""
        while self.network and messages:
            self.deliver(0)
            messages -= 1

    def do_deliver_to(self, key: MemberKey, messages: int = 500) -> None:
        """Deliver messages to one member."""
        for index in [index for index, envelope in enumerate(self.network) if envelope.to == key][:messages][::-1]:
            self.network.append(self.network.pop(index))
        for _ in range(min(messages, sum(envelope.to == key for envelope in self.network))):
            self.deliver(max(index for index, envelope in enumerate(self.network) if envelope.to == key))

    def do_repeat(self, key: MemberKey) -> None:
        """Deliver the oldest message to one member, and leave a copy on the way."""
        self.deliver(next(index for index, envelope in enumerate(self.network) if envelope.to == key), again=True)

    def do_lose(self) -> None:
        """Lose every message on its way."""
        for to, came in self.network:
            self._say(f"lost: {_name(came.sender)} to {_name(to.rank)}: {_told(came.message)}")
        self.network.clear()

    def do_crash(self, key: MemberKey) -> None:
        """Kill a machine; it starts again from its disk."""
        self.crash(key.machine)
        self._say(f"{_name(key.rank)} starts again: {_role(self.members[key].role)}")

    def do_crash_after(self, effects: int) -> None:
        """Let the machine of the next step crash after some effects."""
        self._crash_after = effects

    def do_cut(self, one: MemberKey, other: MemberKey) -> None:
        """Cut the way from one machine to another; the way back stays."""
        self.cuts.add((one.machine, other.machine))

    def do_cut_off(self, key: MemberKey) -> None:
        """Cut every way of one machine; messages to it are lost."""
        self.cuts |= {(key.machine, other) for other in range(3)} | {(other, key.machine) for other in range(3)}
        self.network = [envelope for envelope in self.network if envelope.to != key]

    def do_heal(self) -> None:
        """End every cut."""
        self.cuts.clear()

    def do_keep_disk(self, key: MemberKey) -> None:
        """Make a backup of a disk."""
        self._kept[key] = self.disks[key]

    def do_lose_disk(self, key: MemberKey) -> None:
        """Replace a disk by an empty one, or by one whose content is not proven."""
        self.lose_disk(key.machine)
        self._say(f"{_name(key.rank)} starts again: {_role(self.members[key].role)}")

    def do_put_back(self, key: MemberKey) -> None:
        """Start a machine with the disk of the backup, as if nothing had happened."""
        self.put_back({key: self._kept[key]})
        self._say(f"{_name(key.rank)} starts again: {_role(self.members[key].role)}")

    def do_logs(self) -> None:
        """Write the logs and promises on the disks, and the released ticks."""
        for key, disk in self.disks.items():
            words = "an empty disk" if disk is None else f"promised {disk.promised}, log {_history(disk.history)}"
            self._say(f"{_name(key.rank)}: {words}")
        self._say(f"released: {_history(self.released[0])}")

    # --- the record -----------------------------------------------------------------------------------------------

    def _react(self, key: MemberKey, event: RingEvent) -> None:
        self.step(key, event)

    def step(self, key: MemberKey, event: RingEvent, crash_after: int | None = None) -> Sequence[do.RingEffect]:
        crash_after, self._crash_after = self._crash_after, None
        before = self.members[key].role
        head = len(self.lines)
        done = super().step(key, event, crash_after)
        after = self.members[key].role
        said = [f"{_name(key.rank)} {_event(event)}", *(f"    {_effect(effect)}" for effect in done)]
        if crash_after is not None:
            said.append("    crashes, and starts again")
        if _role(before) != _role(after):
            said.append(f"    => {_role(after)}")
        self.lines[head:head] = [f"  {line}" for line in said]
        return done

    def _say(self, text: str) -> None:
        self.lines.append(f"  {text}")


def run(text: str) -> str:
    """Carry out the commands of a transcript; return the text with the reactions of the machines."""
    transcript = RingTranscript()
    done: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            transcript.lines = []
            transcript.command(line.removeprefix("> "))
            done += [line, *transcript.lines]
        elif not line.startswith("  "):
            done.append(line)
    return "\n".join(done) + "\n"


def _argument(word: str) -> "MemberKey | int":
    return MemberKey(0, int(word[1:]) - 1) if word.startswith("B") else int(word)


def _name(rank: int) -> str:
    return f"B{rank + 1}"


def _event(event: RingEvent) -> str:
    if isinstance(event, MessageCame):
        return f"hears {_name(event.sender)}: {_told(event.message)}"
    return {
        TryDue: "looks whether to lead",
        BeatDue: "sends its sign of life",
        LeaderUnheard: "hears no leader",
        FollowersUnheard: "hears no follower",
        EntriesOffered: "is offered entries",
    }[type(event)]


def _effect(effect: do.RingEffect) -> str:
    match effect:
        case do.KeepPromise(generation=generation):
            return f"writes: promise {generation}"
        case do.KeepTicks(after=after, ticks=ticks):
            return f"writes: {_marks(ticks)} after tick {after}"
        case do.KeepStore(rank=rank, store=store):
            return f"writes: {_name(rank)} has store {store.number}"
        case do.KeepRecord(record=record):
            return f"writes: promise {record.promised}, log {_history(record.history)}"
        case do.SendMessage(to=to, message=message):
            return f"sends {_name(to)}: {_told(message)}"
        case do.Release(upto=upto):
            return f"RELEASES up to tick {upto}"
        case do.Decline(leader=leader, reason=reason):
            return f"declines: {reason}" + (f", ask {_name(leader)}" if leader is not None else "")
        case do.TryAfter(attempt=attempt):
            return f"tries again after a pause, denied {attempt} times"
        case do.Alarm(words=words):
            return f"alarm: {words}"
        case do.Disregarded(why=why):
            return f"disregards it: {why}"


def _told(message: RingMessage) -> str:
    values = [_value(field.name, getattr(message, field.name)) for field in fields(message)]
    return " ".join([type(message).__name__, ", ".join(filter(None, values))]).strip()


def _value(name: str, value: object) -> str:
    match value:
        case TickHistory():
            return f"log {_history(value)}"
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


def _history(history: TickHistory) -> str:
    ends = [*(start.seal - 1 for start in history.starts[1:]), history.end]
    spans = [(start, end) for start, end in zip(history.starts, ends, strict=True)]
    return " ".join(_span(start.generation, start.seal, end) for start, end in spans) or "empty"


def _span(generation: int, first: int, last: int) -> str:
    return f"{generation}:{first}" if first == last else f"{generation}:{first}-{last}"


def _role(role: Role) -> str:
    match role:
        case Following(hears=hears):
            return "follows" if hears else "follows, and hears no leader"
        case Proposing(generation=generation):
            return f"proposes {generation}"
        case Adopting(generation=generation, source=source):
            return f"adopts the log of {_name(source)} for {generation}"
        case Leading(generation=generation):
            return f"leads {generation}"
        case Retired():
            return "is retired"
    return {"Newcomer": "is a newcomer", "Fenced": "is fenced"}[type(role).__name__]
