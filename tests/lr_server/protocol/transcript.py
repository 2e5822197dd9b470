"""Scenarios as plain text: commands to one session between two sites, and the reactions of the machines.

A file of `transcripts/` has a title, then paragraphs. A line that begins with `> ` is a command of `Transcript`; the
machines write the lines after the command. `LRQ_WRITE_TRANSCRIPTS=1` lets the test write the files again.
"""

from copy import deepcopy
from dataclasses import fields, is_dataclass
from enum import Enum

from lr_server.protocol import effects as do
from lr_server.protocol import events as happened
from lr_server.protocol.events import Event, RefusalKind
from lr_server.protocol.states import State, describe
from queues.positions import Position, Visibility
from tests.lr_server.protocol.model import Ack, Batch, Begin, Chunk, End, Frame
from tests.lr_server.protocol.simulation import Simulation
from tests.lr_server.protocol.transcript_text import carried_out


class Transcript(Simulation):
    """A simulation that records each event with its state and effects, each frame and each acknowledgement."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lines: list[str] = []
        self._backup = (self.source, self.sink)

    def command(self, words: str) -> None:
        """Carry out one command; raise `AttributeError` for an unknown one."""
        name, *numbers = words.split()
        getattr(self, f"do_{name.replace('-', '_')}")(*map(int, numbers))

    # --- the commands -----------------------------------------------------------------------------------------

    def do_commit(self, rows: int = 1) -> None:
        """Commit entries for this session at the source, and take a tick."""
        self._commit(rows, owed=True)

    def do_commit_for_others(self, rows: int = 1) -> None:
        """Commit entries for other destinations, and take a tick."""
        self._commit(rows, owed=False)

    def do_start(self) -> None:
        """Start the session."""
        self.post(happened.Started())
        self.pump()

    def do_retry(self) -> None:
        """Let the time of the backoff pass."""
        self.retry()
        self.pump()

    def do_build(self) -> None:
        """Let the provider complete the snapshot."""
        self.build()
        self.pump()

    def do_provider_fails(self) -> None:
        """Let one attempt of the provider fail."""
        self.fail_to_build()
        self.pump()

    def do_request(self) -> None:
        """Request a snapshot by hand."""
        self.request("an operator asked for it")
        self.pump()

    def do_cancel(self) -> None:
        """Cancel the newest snapshot by hand."""
        self.cancel()
        self.pump()

    def do_send(self, frames: int = 1) -> None:
        """Send frames while the window has room."""
        for _ in range(frames):
            self.send()
        self.pump()

    def do_deliver(self, frames: int = 1) -> None:
        """Let the sink take frames."""
        for _ in range(frames):
            self.deliver()

    def do_deliver_twice(self) -> None:
        """Let the sink take one frame twice."""
        self.deliver(twice=True)

    def do_ack(self, acks: int = 1) -> None:
        """Let the session take acknowledgements."""
        for _ in range(acks):
            self.receive()
            self.pump()

    def do_apply(self, entries: int = 99) -> None:
        """Let the subscriber apply entries."""
        self.sink.consume(entries)

    def do_work(self) -> None:
        """Send, deliver, acknowledge and apply until nothing moves."""
        while any((self.send(), self.deliver(), self.receive())):
            self.pump()
        self.sink.consume(99)

    def do_lose_connection(self, delivered: int = 0) -> None:
        """Break the connection; the sink takes some more frames, whose acknowledgements are lost."""
        self.cut(delivered)
        self.pump()

    def do_network_down(self) -> None:
        """Make the sink unreachable."""
        self.network_up = False

    def do_network_up(self) -> None:
        """Make the sink reachable again."""
        self.network_up = True

    def do_trim(self) -> None:
        """Trim all of the log at the source."""
        self.source.trim(self.source.newest_seq)

    def do_back_up(self) -> None:
        """Keep a copy of both sites."""
        self._backup = (deepcopy(self.source), deepcopy(self.sink))

    def do_restore_source(self) -> None:
        """Put the source back to its copy; the source notices, and begins a new branch."""
        self.restore_source(self._backup[0], branch=f"b{len(self.source.branches) + 1}")
        self.pump()

    def do_restore_sink(self) -> None:
        """Put the sink back to its copy."""
        self.restore_sink(self._backup[1])
        self.pump()

    def do_kill_server(self, delivered: int = 0) -> None:
        """Kill the source's server and start another one."""
        self._say("the server is killed; another one starts")
        self.crash(delivered)
        self.pump()

    def do_take_over(self) -> None:
        """Let another server of the source write to the sink under a higher generation."""
        self.sink.is_fenced = True

    def do_lose_ownership(self) -> None:
        """Tell the session that another server owns the site."""
        self.post(happened.OwnershipLost("another server owns this site"))
        self.pump()

    def do_stop(self) -> None:
        """Stop the session."""
        self.post(happened.StopRequested())
        self.pump()

    def do_undo_is_possible(self) -> None:
        """Give the listener an `on_rollback`."""
        self.sink.undoes = True

    def do_compare(self) -> None:
        """Write the entries of the application at the sink beside the entries that the source has for it."""
        has, owed = self.sink.view, self.source.owed
        self._say(f"the application has {_numbers(has)}" + (" = all that it is owed" if has == owed else ""))
        if has != owed:
            self._say(f"it is owed {_numbers(owed)}")

    # --- the record -----------------------------------------------------------------------------------------------

    def step(self, event: Event) -> tuple[do.Effect, ...]:
        before = self.state
        effects = super().step(event)
        self._say(_told(event))
        if describe(before) != describe(self.state):
            self._say(f"    => {_state(self.state)}")
        for effect in effects:
            if not isinstance(effect, do.Report):
                self._say(f"    {_told(effect)}")
        return effects

    def send(self) -> bool:
        before = len(self.wire)
        moved = super().send()
        for _, frame in list(self.wire)[before:]:
            self._say(f"source -> sink    {_frame(frame)}")
        return moved

    def deliver(self, *, twice: bool = False) -> bool:
        before = len(self.acks)
        moved = super().deliver(twice=twice)
        for ack in list(self.acks)[before:]:
            self._say(f"sink -> source    {_ack(ack)}")
        return moved

    def _commit(self, rows: int, *, owed: bool) -> None:
        for _ in range(rows):
            self.source.commit(next(self.numbers), owed=owed)
        self.source.tick(next(self.numbers))
        self._say(f"the log ends at {self.source.newest_seq}")

    def _say(self, text: str) -> None:
        self.lines.append(f"  {text}")


def run(text: str) -> str:
    """Carry out the commands of a transcript; return the text with the reactions of the machines."""
    return carried_out(text, Transcript())


def _state(state: State) -> str:
    """Write a state; omit its reason if the event has already told it."""
    name, detail = describe(state)
    what, separator, _ = detail.partition(": ")
    return f"{name}: {what}" if separator else f"{name}: {detail}" if detail else name


def _told(thing: object) -> str:
    """Write an event, a decision or an effect with its values."""
    if isinstance(thing, do.Ignored):
        return f"ignored: {thing.why}"
    values = [_value(field.name, getattr(thing, field.name)) for field in fields(thing)]  # type: ignore[arg-type]
    return f"{type(thing).__name__} {', '.join(values)}".strip()


def _value(name: str, value: object) -> str:
    match value:
        case Position():
            return f"{name} {_position(value)}"
        case RefusalKind():
            return value.name
        case Enum():
            return str(value.value)
        case str():
            return f"{name} {value}" if name == "sync_id" else repr(value)
        case _ if is_dataclass(value):
            return _told(value)
        case _:
            return f"{name} {value}"


def _position(position: Position) -> str:
    cut = f" with the cut {Visibility.parse(position.cut).high}" if position.cut else ""
    return f"{position.branch or '-'}@{position.seq}{cut}"


def _frame(frame: Frame) -> str:
    match frame:
        case Batch():
            part = "" if frame.complete else f" (a part of the tick up to {frame.tick.seq})"
            return f"batch {_position(frame.start)} .. {frame.end}: {_numbers(frame.values)}{part}"
        case Begin(sync_id=sync_id):
            return f"snapshot {sync_id} begins"
        case Chunk(sync_id=sync_id, first_row=first, values=values):
            return f"snapshot {sync_id} rows {first} .. {first + len(values) - 1}: {_numbers(values)}"
        case End(sync_id=sync_id, base=base):
            return f"snapshot {sync_id} ends: {len(frame.values)} rows, base {_position(base)}"


def _ack(ack: Ack) -> str:
    if ack.refusal is not None:
        return f"refused: {ack.refusal.name}"
    if ack.staged is not None and not isinstance(ack.frame, Batch):
        return f"staged {ack.staged.rows} rows of snapshot {ack.staged.sync_id}"
    return f"received {_position(ack.received)}"


def _numbers(values: "list[int] | tuple[int, ...]") -> str:
    return ", ".join(map(str, values)) or "nothing"
