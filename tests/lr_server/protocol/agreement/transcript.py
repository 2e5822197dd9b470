"""Scenarios as plain text: commands to the three members of one token, and the reactions of the machines.

A file of `transcripts/` has a title, then paragraphs. A line that begins with `> ` is a command of `RingTranscript`;
the machines write the lines after the command. B1, B2 and B3 are the members of the ranks 0, 1 and 2. A log such as
`2:1-3 5:4` has the ticks 1 to 3 of generation 2, and tick 4 of generation 5. `LRQ_WRITE_TRANSCRIPTS=1` lets the test
write the files again.
"""

from collections.abc import Sequence

from lr_server.protocol.agreement import effects as do
from lr_server.protocol.agreement.answers import answerable_end
from lr_server.protocol.agreement.events import (
    BeatDue,
    EntriesOffered,
    FollowersUnheard,
    FollowerUnheard,
    LeaderUnheard,
    RingEvent,
    TryDue,
)
from lr_server.protocol.agreement.record import MemberRecord
from lr_server.protocol.agreement.roles import RingLimits
from tests.lr_server.protocol.agreement.transcript_words import (
    effect_of,
    event_of,
    history_of,
    message_of,
    name_of,
    role_of,
)
from tests.lr_server.protocol.agreement.world import MemberKey, RingWorld
from tests.lr_server.protocol.transcript_text import carried_out


class RingTranscript(RingWorld):
    """A world with one token that records each step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lines: list[str] = []
        self._crash_after: int | None = None
        self._is_sound = True
        self._kept: dict[MemberKey, MemberRecord] = {}

    def command(self, words: str) -> None:
        """Carry out one command; raise `AttributeError` for an unknown one."""
        name, *arguments = words.split()
        getattr(self, f"do_{name.replace('-', '_')}")(*map(_argument, arguments))

    # --- the commands -----------------------------------------------------------------------------------------

    def do_begin(self, ticks: int = 1, in_message: int = 64, acknowledging: int = 1) -> None:
        """Let B1 lead generation 2 with some released ticks, the seal included."""
        self.limits = RingLimits(in_message, acknowledging=acknowledging)
        for machine in range(3):
            self.crash(machine)
        self.everywhere(TryDue())
        for _ in range(1, ticks):
            self.step(MemberKey(0, 0), EntriesOffered())
            self.deliver_all()
        self.everywhere(BeatDue())
        self.lines = []
        self.do_logs()

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

    def do_silence(self, key: MemberKey, follower: MemberKey) -> None:
        """Tell a leader that one follower is silent."""
        self._react(key, FollowerUnheard(follower.rank))

    def do_answers(self, key: MemberKey) -> None:
        """Write up to which tick a member may answer the requests of producers."""
        self._say(f"{name_of(key.rank)} may answer up to tick {answerable_end(self.members[key])}")

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
        for _ in range(min(messages, sum(envelope.to == key for envelope in self.network))):
            self.deliver(self._first_to(key))

    def do_repeat(self, key: MemberKey) -> None:
        """Deliver the oldest message to one member, and leave a copy on the way."""
        self.deliver(self._first_to(key), again=True)

    def do_lose(self) -> None:
        """Lose every message on its way."""
        for to, came in self.network:
            self._say(f"lost: {name_of(came.sender)} to {name_of(to.rank)}: {message_of(came.message)}")
        self.network.clear()

    def do_crash(self, key: MemberKey) -> None:
        """Kill a machine; it starts again from its disk."""
        self.crash(key.machine)
        self._say(f"{name_of(key.rank)} starts again: {role_of(self.members[key].role)}")

    def do_crash_after(self, effects: int) -> None:
        """Let the machine of the next step crash after some effects."""
        self._crash_after = effects

    def do_cut(self, one: MemberKey, other: MemberKey) -> None:
        """Cut the way from one machine to another; the way back stays."""
        self.cuts.add((one.machine, other.machine))

    def do_cut_off(self, key: MemberKey) -> None:
        """Cut every way of one machine; messages to it and from it are lost."""
        self.cuts |= {(key.machine, other) for other in range(3)} | {(other, key.machine) for other in range(3)}
        self.network = [one for one in self.network if key not in (one.to, one.to._replace(rank=one.came.sender))]

    def do_heal(self) -> None:
        """End every cut."""
        self.cuts.clear()

    def do_keep_disk(self, key: MemberKey) -> None:
        """Make a backup of a disk."""
        self._kept[key] = self.disks[key]

    def do_lose_disk(self, key: MemberKey) -> None:
        """Replace a disk by an empty one, or by one whose content is not proven."""
        self.lose_disk(key.machine)
        self._say(f"{name_of(key.rank)} starts again: {role_of(self.members[key].role)}")

    def do_put_back(self, key: MemberKey) -> None:
        """Start a machine with the disk of the backup, as if nothing had happened: more than the members survive."""
        self._is_sound = False
        self.put_back({key: self._kept[key]})
        self._say(f"{name_of(key.rank)} starts again: {role_of(self.members[key].role)}")

    def do_logs(self) -> None:
        """Write the logs and promises on the disks, and the released ticks."""
        for key, disk in self.disks.items():
            words = "an empty disk" if disk is None else f"promised {disk.promised}, log {history_of(disk.history)}"
            self._say(f"{name_of(key.rank)}: {words}")
        self._say(f"released: {history_of(self.released[0])}")

    # --- the record -----------------------------------------------------------------------------------------------

    def _react(self, key: MemberKey, event: RingEvent) -> None:
        self.step(key, event)

    def step(self, key: MemberKey, event: RingEvent, crash_after: int | None = None) -> Sequence[do.RingEffect]:
        crash_after, self._crash_after = self._crash_after, None
        before = self.members[key].role
        done = super().step(key, event, crash_after)
        after = self.members[key].role
        said = [f"{name_of(key.rank)} {event_of(event)}", *(f"    {effect_of(effect)}" for effect in done)]
        if crash_after is not None:
            said.append("    crashes, and starts again")
        if role_of(before) != role_of(after):
            said.append(f"    => {role_of(after)}")
        self.lines += [f"  {line}" for line in said]
        return done

    def check(self, token: int) -> None:
        if self._is_sound:
            super().check(token)

    def _first_to(self, key: MemberKey) -> int:
        return next(index for index, envelope in enumerate(self.network) if envelope.to == key)

    def _say(self, text: str) -> None:
        self.lines.append(f"  {text}")


def run(text: str) -> str:
    """Carry out the commands of a transcript; return the text with the reactions of the machines."""
    return carried_out(text, RingTranscript())


def _argument(word: str) -> "MemberKey | int":
    return MemberKey(0, int(word[1:]) - 1) if word.startswith("B") else int(word)
