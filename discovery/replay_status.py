"""The last order for a replay of one receive queue, as the status shows it."""

from dataclasses import dataclass
from typing import Any, Final

from queues.clock import iso
from queues.names import ClientName, SiteId
from queues.receive.replays import ReplayOrder, ReplayState

#: An order for a replay that has ended stays in the status for this time, in seconds.
ENDED_SECONDS: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class ReplayStatus:
    """The last order for a replay of one receive queue; `words` is the wish, and `outcome` tells how the order ended.

    The wish is `from_seq`, of `branch` if that is not empty; or, with `from_seq` 0, the entries since `since_us`.
    Without `undo` the listener does not undo the entries first. `ended_us` is 0 while the source has not answered.
    """

    client: ClientName
    source: SiteId
    order_id: str
    state: ReplayState
    words: str
    from_seq: int
    branch: str
    since_us: int
    undo: bool
    person: str
    ordered_us: int
    outcome: str
    ended_us: int

    @property
    def waits(self) -> bool:
        """Whether the source has not answered yet."""
        return self.state is ReplayState.ORDERED

    @classmethod
    def of(cls, order: ReplayOrder) -> "ReplayStatus":
        """Return the status of a stored order."""
        wish = order.wish
        return cls(
            client=order.client,
            source=order.source,
            order_id=order.order_id,
            state=order.state,
            words=order.words,
            from_seq=wish.from_seq,
            branch=wish.branch,
            since_us=wish.since_us,
            undo=wish.undo,
            person=order.person,
            ordered_us=order.ordered_us,
            outcome=order.outcome,
            ended_us=order.ended_us,
        )

    def as_json(self) -> dict[str, Any]:
        """Return an item of `replays`, which `lrq replay` prints too."""
        return {
            "client": self.client,
            "source": self.source,
            "order": self.order_id,
            "from": self.from_seq or None,
            "branch": self.branch or None,
            "since": None if self.from_seq else iso(self.since_us),
            "undo": self.undo,
            "person": self.person,
            "ordered_at": iso(self.ordered_us),
            "state": self.state.value,
            "outcome": self.outcome or None,
            "ended_at": iso(self.ended_us) if self.ended_us else None,
        }
