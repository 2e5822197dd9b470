"""One member of a token: the pure machine, and its effects on a real store, in their order."""

import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from lr_server.protocol.agreement.effects import (
    Alarm,
    Decline,
    Disregarded,
    KeepRecord,
    KeepTicks,
    Release,
    RingEffect,
    SendMessage,
    TryAfter,
)
from lr_server.protocol.agreement.events import EntriesOffered, MessageCame, RingEvent
from lr_server.protocol.agreement.history import TickHistory, TickMark
from lr_server.protocol.agreement.machine import advance
from lr_server.protocol.agreement.messages import Append, RingMessage, Tail
from lr_server.protocol.agreement.record import StoreId
from lr_server.protocol.agreement.roles import DEFAULT_LIMITS, Leading, RingLimits, RingMember, newcomer, reopened
from lr_server.ring.offers import OfferedEntries
from lr_server.ring.store import TokenStore, mark_of
from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import CorruptFrameError, DataLossError, ProtocolError
from queues.send_log.outbox import SourceTransaction
from queues.send_log.ring.tick_contents import TickContent, TickStamp, content_after, seal_after
from queues.send_log.ring.tick_productions import TickProduction


class RingParcel(NamedTuple):
    """A message of the member `sender`, written by its store, with the contents of the message's ticks."""

    sender: int
    store: StoreId
    message: RingMessage
    contents: Sequence[TickContent] = ()


class Surroundings(Protocol):
    """The other members, and the rest of the process, as one member sees them. Only `pull` waits for a member."""

    def send(self, to: int, parcel: RingParcel) -> None:
        """Send the parcel to the member *to*; it may be lost, repeated or overtaken."""
        ...

    def pull(self, rank: int, after: int) -> Sequence[TickContent]:
        """Return the next ticks of the member *rank* after number *after*, at least one; raise `TransientError`."""
        ...

    def release(self, upto: int) -> None:
        """Let sinks, producers and waits see the ticks up to this number."""
        ...

    def try_after(self, attempt: int) -> None:
        """Report `TryDue` after a random delay that grows with the attempts."""
        ...

    def alarm(self, words: str) -> None:
        """Tell an operator."""
        ...


class MemberEdge:
    """One member; not for several threads. After an error it is over: open the store again, as after a crash."""

    def __init__(
        self,
        store: TokenStore,
        rank: int,
        surroundings: Surroundings,
        *,
        limits: RingLimits = DEFAULT_LIMITS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Begin from the record of *store*, or as a newcomer of *rank* if the store does not count."""
        record = store.record()
        self._store = store
        self._surroundings = surroundings
        self._clock = clock
        self.member: RingMember = (
            newcomer(rank, secrets.randbits(62), limits) if record is None else reopened(record, limits)
        )

    def receive(self, parcel: RingParcel) -> Sequence[RingEffect]:
        """Take the message of another member; raise `ProtocolError` if its contents are of other ticks."""
        message = parcel.message
        told = message.ticks if isinstance(message, Append | Tail) else ()
        if tuple(map(mark_of, parcel.contents)) != told:
            raise ProtocolError(f"rank {parcel.sender} has sent other contents than ticks")
        contents = dict(zip(told, parcel.contents, strict=True))
        return self._step(MessageCame(parcel.sender, parcel.store, message), contents)

    def post(self, event: RingEvent) -> Sequence[RingEffect]:
        """Take an event of a clock."""
        return self._step(event, {})

    def offer(
        self,
        transactions: Sequence[SourceTransaction],
        productions: Sequence[TickProduction] = (),
        after: TickMark | None = None,
    ) -> TickMark | Decline:
        """Store the entries of *transactions* in the next tick and return it, or return why nothing was stored.

        The tick is released later, by `Surroundings.release`, or never. *productions* and *after* are those of
        `OfferedEntries`. Raises `UsageError` for entries above the limits of one tick, and without entries.
        """
        offered = OfferedEntries(transactions, productions, after)
        offered.check_size()
        if isinstance(self.member.role, Leading) and after not in (None, self.member.record.history.newest):
            return Decline(None, "the log of this token has gone on since the requests were decided")
        for effect in self._step(EntriesOffered(), {}, offered):
            if isinstance(effect, KeepTicks):
                return effect.ticks[0]
            if isinstance(effect, Decline):
                return effect
        raise AssertionError("offered entries were neither stored nor declined")

    def _step(
        self, event: RingEvent, contents: Mapping[TickMark, TickContent], offered: OfferedEntries | None = None
    ) -> Sequence[RingEffect]:
        after, effects = advance(self.member, event)
        sender = event.sender if isinstance(event, MessageCame) else None
        for effect in effects:
            self._carry_out(effect, after, contents, offered, sender)
        self.member = after
        return effects

    def _carry_out(
        self,
        effect: RingEffect,
        after: RingMember,
        contents: Mapping[TickMark, TickContent],
        offered: OfferedEntries | None,
        sender: int | None,
    ) -> None:
        match effect:
            case SendMessage(to=to, message=message):
                self._surroundings.send(to, self._parcel(after, message))
            case Release(upto=upto):
                self._surroundings.release(upto)
            case TryAfter(attempt=attempt):
                self._surroundings.try_after(attempt)
            case Alarm(words=words):
                self._surroundings.alarm(words)
            case Decline() | Disregarded():
                pass
            case KeepTicks(ticks=ticks):
                self._store.keep(effect, [contents.get(mark) or self._own(mark, offered) for mark in ticks])
            case KeepRecord(record=record):
                assert sender is not None, "a copy comes from a member"
                self._copy(sender, record.history)
                self._store.keep(effect)
            case _:
                self._store.keep(effect)

    def _own(self, mark: TickMark, offered: OfferedEntries | None) -> TickContent:
        """Return a new tick of this leader: with entries, or the seal of its generation."""
        stamp = TickStamp(secrets.randbits(62), self._clock.now_us())
        end = self._store.end()
        if offered is not None:
            return content_after(end, offered.transactions, stamp, offered.productions)
        return seal_after(end, mark.generation, uuid.uuid4().hex, stamp)

    def _parcel(self, after: RingMember, message: RingMessage) -> RingParcel:
        """Attach the contents of the message's ticks, from this store; cut a message that is too large.

        A message with fewer ticks is one that a member with smaller limits sends.
        """
        contents: Sequence[TickContent] = ()
        if isinstance(message, Append | Tail) and message.ticks:
            contents = self._store.read(message.ticks[0].seq - 1, len(message.ticks))
            marks = tuple(map(mark_of, contents))
            assert marks == message.ticks[: len(marks)], "a member sends only ticks of its own disk"
            message = replace(message, ticks=marks)
        return RingParcel(after.record.rank, after.record.store, message, contents)

    def _copy(self, source: int, history: TickHistory) -> None:
        """Pull the ticks of *history* that the store lacks from the member *source*.

        The last common tick comes again: its random numbers prove that both stores have the same ticks before.
        """
        common = self._store.history().common_end(history)
        try:
            self._pull(source, history, max(common - 1, 0))
        except DataLossError:
            # Ticks of the same numbers differ: the store has another history, of which nothing is of use.
            self._pull(source, history, 0)

    def _pull(self, source: int, history: TickHistory, end: int) -> None:
        self._store.copy(end, ())
        while end < history.end:
            page = [each for each in self._surroundings.pull(source, end) if each.tick.number <= history.end]
            if not page or not all(history.holds(mark_of(content)) for content in page):
                raise CorruptFrameError(f"rank {source} has sent other ticks than its history has")
            self._store.copy(end, page)
            end = page[-1].tick.number
