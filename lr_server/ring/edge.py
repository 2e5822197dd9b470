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
from lr_server.protocol.agreement.events import BeatDue, EntriesOffered, MessageCame, RingEvent
from lr_server.protocol.agreement.history import TickHistory, TickMark
from lr_server.protocol.agreement.machine import advance
from lr_server.protocol.agreement.messages import Append, RingMessage, Tail
from lr_server.protocol.agreement.record import StoreId
from lr_server.protocol.agreement.roles import (
    DEFAULT_LIMITS,
    Following,
    Leading,
    RingLimits,
    RingMember,
    newcomer,
    reopened,
)
from lr_server.ring.log_copy import LogSource, copy_log
from lr_server.ring.member_state import trimmable
from lr_server.ring.offers import OfferedEntries
from lr_server.ring.store import TokenStore, mark_of
from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import PeerUnreachableError, ProtocolError, TrimmedError
from queues.send_log.outbox import SourceTransaction
from queues.send_log.ring.tick_contents import TickContent, TickStamp, content_after, seal_after
from queues.send_log.ring.tick_productions import TickProduction


class RingParcel(NamedTuple):
    """A message of the member `sender`, written by its store, with the contents of the message's ticks.

    `trimmed` is the number of the newest tick that the sender, a leader, has trimmed; 0 if that is not told.
    """

    sender: int
    store: StoreId
    message: RingMessage
    contents: Sequence[TickContent] = ()
    trimmed: int = 0


class Surroundings(LogSource, Protocol):
    """The other members, and the rest of the process, as one member sees them. Only the pulls wait for a member."""

    def send(self, to: int, parcel: RingParcel) -> None:
        """Send the parcel to the member *to*; it may be lost, repeated or overtaken."""
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
        trims: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Begin from the record of *store*, or as a newcomer of *rank* if the store does not count.

        With *trims*, the store is trimmed as far as the leader's is.
        """
        record = store.record()
        self._store = store
        self._surroundings = surroundings
        self._clock = clock
        self.member: RingMember = (
            newcomer(rank, secrets.randbits(62), limits) if record is None else reopened(record, limits)
        )
        self._trims = trims
        #: The number of the newest trimmed tick, as of the last sign of life.
        self.trimmed = store.trimmed()

    def receive(self, parcel: RingParcel) -> Sequence[RingEffect]:
        """Take the message of another member; raise `ProtocolError` if its contents are of other ticks."""
        message = parcel.message
        told = message.ticks if isinstance(message, Append | Tail) else ()
        if tuple(map(mark_of, parcel.contents)) != told:
            raise ProtocolError(f"rank {parcel.sender} has sent other contents than ticks")
        contents = dict(zip(told, parcel.contents, strict=True))
        effects = self._step(MessageCame(parcel.sender, parcel.store, message), contents)
        if self._trims and isinstance(self.member.role, Following):
            # Every follower has the ticks that any leader has trimmed, so an old word does no harm.
            self._trim(min(parcel.trimmed, trimmable(self.member)))
        return effects

    def post(self, event: RingEvent) -> Sequence[RingEffect]:
        """Take an event of a clock."""
        if isinstance(event, BeatDue):
            # Another thread trims the log of a leader.
            self.trimmed = self._store.trimmed()
        return self._step(event, {})

    def _trim(self, upto: int) -> None:
        """Trim some of the ticks up to number *upto*; the next word of the leader goes on with the others."""
        if upto > self.trimmed:
            self.trimmed = upto if self._store.trim(upto) else self._store.trimmed()

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
                self._send(to, after, message)
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
                self.trimmed = self._store.trimmed()
            case _:
                self._store.keep(effect)

    def _copy(self, source: int, history: TickHistory) -> None:
        """Copy the ticks of *history* from the member *source*, or from the third one if that is impossible.

        The newest ticks of a log prove nothing about its older pages on the disk. Equal ticks are equal everywhere.
        """
        try:
            copy_log(self._store, self._surroundings, source, history)
        except (PeerUnreachableError, ProtocolError):
            (third,) = set(self.member.record.others) - {source}
            copy_log(self._store, self._surroundings, third, history)

    def _own(self, mark: TickMark, offered: OfferedEntries | None) -> TickContent:
        """Return a new tick of this leader: with entries, or the seal of its generation."""
        stamp = TickStamp(secrets.randbits(62), self._clock.now_us())
        end = self._store.end()
        if offered is not None:
            return content_after(end, offered.transactions, stamp, offered.productions)
        return seal_after(end, mark.generation, uuid.uuid4().hex, stamp)

    def _send(self, to: int, after: RingMember, message: RingMessage) -> None:
        try:
            self._surroundings.send(to, self._parcel(after, message))
        except TrimmedError:
            # Such a store has forgotten ticks. The others go on without that member.
            self._surroundings.alarm(
                f"rank {to} lacks ticks that are trimmed here, so its store was restored: empty that store, so that it "
                "begins as a newcomer"
            )

    def _parcel(self, after: RingMember, message: RingMessage) -> RingParcel:
        """Add the contents of the message's ticks, from this store; cut a message that is too large.

        A message with fewer ticks is one that a member with smaller limits sends.
        """
        contents: Sequence[TickContent] = ()
        if isinstance(message, Append | Tail) and message.ticks:
            contents = self._store.read(message.ticks[0].seq - 1, len(message.ticks))
            marks = tuple(map(mark_of, contents))
            assert marks == message.ticks[: len(marks)], "a member sends only ticks of its own disk"
            message = replace(message, ticks=marks)
        trimmed = self.trimmed if isinstance(after.role, Leading) else 0
        return RingParcel(after.record.rank, after.record.store, message, contents, trimmed)
