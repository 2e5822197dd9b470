"""Entries for the next tick of a token, and the answer of its member."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple

from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.history import TickMark
from queues.errors import UsageError
from queues.send_log.outbox import SourceTransaction
from queues.send_log.port import TickLimits
from queues.send_log.ring.tick_productions import TickProduction

#: The most entries and bytes of one tick, so that each tick fits a message.
_LIMITS: Final = TickLimits()


class OfferedEntries(NamedTuple):
    """The transactions of one tick, and the requests of producers among them.

    With `after`, the leader declines the entries unless its log ends with that tick.
    """

    transactions: Sequence[SourceTransaction]
    productions: Sequence[TickProduction] = ()
    after: TickMark | None = None

    def check_size(self) -> None:
        """Raise `UsageError` for entries above the limits of one tick, and without entries."""
        entries = [entry for each in self.transactions for entry in each.entries]
        size = sum(len(entry.payload) for entry in entries)
        if not entries or len(entries) > _LIMITS.rows or size > _LIMITS.payload_bytes:
            raise UsageError(
                f"a tick of a ring takes 1 to {_LIMITS.rows} entries of {_LIMITS.payload_bytes} bytes in all, "
                f"not {len(entries)} of {size}"
            )


class Offer(NamedTuple):
    """Offered entries, with the answer that their caller waits for."""

    entries: OfferedEntries
    outcome: "Future[TickMark | Decline]"

    def decline(self) -> None:
        """Answer that nothing is stored, unless the caller has cancelled the offer."""
        if self.outcome.set_running_or_notify_cancel():
            self.outcome.set_result(Decline(None, "the member of this token is busy, or stops"))
