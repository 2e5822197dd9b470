"""An order to send a range of entries again, as the status shows it."""

from dataclasses import dataclass
from typing import Any

from queues.clock import iso
from queues.names import ClientName, SiteId
from queues.send_log.resends import ResendOrder, ResendState


@dataclass(frozen=True, slots=True)
class ResendStatus:
    """The last order of one session to send a range again; `words` tells the range and the result so far.

    Everything up to `sent_seq` is sent again: `entries` new entries. `left_out` entries have an item key. `ended_us` is
    0 while the order has not ended: a command works on it, or was interrupted.
    """

    client: ClientName
    destination: SiteId
    order_id: str
    state: ResendState
    words: str
    from_seq: int
    to_seq: int
    sent_seq: int
    entries: int
    left_out: int
    person: str
    begun_us: int
    ended_us: int

    @classmethod
    def of(cls, order: ResendOrder) -> "ResendStatus":
        """Return the status of a stored order."""
        return cls(
            client=order.client,
            destination=order.destination,
            order_id=order.order_id,
            state=order.state,
            words=order.words,
            from_seq=order.from_seq,
            to_seq=order.to_seq,
            sent_seq=order.sent_seq,
            entries=order.entries,
            left_out=order.left_out,
            person=order.person,
            begun_us=order.ordered_us,
            ended_us=order.ended_us,
        )

    def as_json(self) -> dict[str, Any]:
        """Return an item of `resends`, which `lrq resend` prints too."""
        return {
            "client": self.client,
            "destination": self.destination,
            "order": self.order_id,
            "from": self.from_seq,
            "to": self.to_seq,
            "done_to": self.sent_seq,
            "entries": self.entries,
            "left_out": self.left_out,
            "person": self.person,
            "begun_at": iso(self.begun_us),
            "state": self.state.value,
            "ended_at": iso(self.ended_us) if self.ended_us else None,
        }
