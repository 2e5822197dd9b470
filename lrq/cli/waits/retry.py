"""Wait for the outcome of planned retries: applied, refused again, or not tried."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Engine

from lrq.cli.words import one_line, plural
from queues.clock import SYSTEM_CLOCK, Clock, now_us, poll
from queues.database import leases
from queues.database.transactions import reading
from queues.names import ClientName
from queues.receive.consumer_marks import subscriber_lease
from queues.receive.parked import ParkedState, states_of
from queues.receive.shard_marks import most_shards

_PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Retried:
    """The outcome of retries: the ids that have gone, those refused again, and those that wait.

    A transaction goes when it is applied, when another operator discards it, or when a snapshot replaces it. `idle` are
    clients without a subscriber among the waiting ones.
    """

    applied: tuple[int, ...]
    refused: tuple[ParkedState, ...] = ()
    waiting: tuple[ParkedState, ...] = ()
    idle: tuple[str, ...] = field(default=())

    @property
    def can_change(self) -> bool:
        """Whether a subscriber works on a transaction that waits."""
        return any(each.client not in self.idle for each in self.waiting)

    def lines(self) -> list[str]:
        """Tell the outcome in sentences."""
        told = [f"{plural(len(self.applied), 'parked transaction')} applied"] if self.applied else []
        told += [f"{each.id} was refused again: {one_line(each.error)}{_at(each)}" for each in self.refused]
        for each in self.waiting:
            why = f": no subscriber of {each.client} works now" if each.client in self.idle else ""
            told.append(f"{each.id} still waits for its subscriber{why}")
        return told

    def as_json(self) -> dict[str, Any]:
        """Return the outcome for programs."""
        return {
            "applied": list(self.applied),
            "refused": [{"id": each.id, "error": each.error, "place": each.place} for each in self.refused],
            "waiting": [each.id for each in self.waiting],
        }


def retried(engine: Engine, ids: Sequence[int], timeout: float, *, clock: Clock = SYSTEM_CLOCK) -> Retried:
    """Wait at most *timeout* seconds for the outcome of retries; without a subscriber, do not wait."""
    return poll(
        lambda: look(engine, ids), lambda found: not found.can_change, timeout=timeout, pause=_PAUSE, clock=clock
    )


def look(engine: Engine, ids: Sequence[int]) -> Retried:
    """Return the outcome until now."""
    with reading(engine, snapshot=True) as connection:
        left = states_of(connection, ids)
        waiting = tuple(each for each in left if each.retrying)
        idle = tuple(each for each in sorted({each.client for each in waiting}) if not _works(connection, each))
    still = {each.id for each in left}
    refused = tuple(each for each in left if not each.retrying)
    return Retried(tuple(each for each in ids if each not in still), refused, waiting, idle)


def _works(connection: Connection, client: ClientName) -> bool:
    names = [subscriber_lease(client), *(subscriber_lease(client, n) for n in range(most_shards(connection, client)))]
    return any(row.name in names and row.expires_us > now_us() for row in leases.every_lease(connection))


def _at(each: ParkedState) -> str:
    return f" ({each.place})" if each.place else ""
