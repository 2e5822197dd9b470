"""The orders for replays: an operator wants applied entries of a receive queue again. All in the caller's transaction.

A queue has one row, that of its last order. The sink tells an order that waits to the source, in each negotiation. The
source answers with the tick after which entries come again, or with the reason why none do.
"""

import uuid
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, exists, insert, or_, select, update

from queues.clock import iso, now_us
from queues.database import actions, dialects
from queues.database.tables.receive import receive_marks, receive_queues, replays
from queues.names import ClientName, SiteId
from queues.words import cleaned

#: The name of the action in the log of actions.
ACTION: Final = "replay"


class ReplayState(StrEnum):
    """The state of an order."""

    #: The source has not answered yet.
    ORDERED = "ordered"
    #: The queue has gone back, and the entries come again.
    BEGUN = "begun"
    REFUSED = "refused"
    CANCELLED = "cancelled"


class ReplayWish(NamedTuple):
    """The wanted entries: those from number `from_seq` on, or with 0 those committed since `since_us`.

    `branch` is that of the number, or empty for any. Without `undo` the listener does not undo the entries first.
    """

    from_seq: int = 0
    branch: str = ""
    since_us: int = 0
    undo: bool = True

    @property
    def entries(self) -> str:
        """The wanted entries in words."""
        place = f"{self.branch}@{self.from_seq}" if self.branch else f"{self.from_seq:,}"
        return f"entries from {place} on" if self.from_seq else f"entries since {iso(self.since_us)}"

    @property
    def words(self) -> str:
        """The wish in words."""
        return self.entries if self.undo else f"{self.entries}, without on_rollback"


class ReplayOrder(NamedTuple):
    """One order: its queue, its wish, its person, its state and its outcome."""

    client: ClientName
    source: SiteId
    queue_id: int
    order_id: str
    wish: ReplayWish
    person: str
    ordered_us: int
    state: ReplayState
    outcome: str
    ended_us: int

    @property
    def waits(self) -> bool:
        """Whether the source has not answered yet."""
        return self.state is ReplayState.ORDERED

    @property
    def words(self) -> str:
        """The wish in words."""
        return self.wish.words

    @property
    def name(self) -> str:
        """Name the queue for people."""
        return f"{self.client} from {self.source}"


def place(connection: Connection, queue_id: int, wish: ReplayWish, person: str) -> str:
    """Order a replay, in the place of any earlier order of the queue; return the id of the order.

    The stream of the source ends with its next frame, so that the source negotiates again.
    """
    order_id = uuid.uuid4().hex
    # First the marks, as the sink locks them.
    marks = update(receive_marks).where(receive_marks.c.queue_id == queue_id)
    connection.execute(marks.values(version=receive_marks.c.version + 1))
    connection.execute(delete(replays).where(replays.c.queue_id == queue_id))
    values = {"queue_id": queue_id, "order_id": order_id, "person": cleaned(person), "ordered_us": now_us()}
    state = {"state": ReplayState.ORDERED, "outcome": "", "ended_us": 0}
    connection.execute(insert(replays).values({**values, **wish._asdict(), **state}))
    return order_id


def end(connection: Connection, order: ReplayOrder, state: ReplayState, outcome: str, *, person: str = "") -> bool:
    """Store the end of an order that waits, also as an action of *person*, by default of its person.

    Return False if the order waits no more.
    """
    own = (replays.c.queue_id == order.queue_id, replays.c.order_id == order.order_id)
    values = {"state": state, "outcome": cleaned(outcome), "ended_us": now_us()}
    ended = connection.execute(update(replays).where(*own, replays.c.state == ReplayState.ORDERED).values(values))
    if ended.rowcount:
        actions.note(connection, person or order.person, ACTION, f"replay of {order.name} {state.value}: {outcome}")
    return ended.rowcount > 0


def of_queue(connection: Connection, client: ClientName, source: SiteId) -> ReplayOrder | None:
    """Return the last order of a queue; None if there was none."""
    return _first(connection, receive_queues.c.client == client, receive_queues.c.source == source)


def waiting(connection: Connection, queue_id: int) -> ReplayOrder | None:
    """Return the order of a queue that the source has not answered; None if there is none."""
    return _first(connection, replays.c.queue_id == queue_id, replays.c.state == ReplayState.ORDERED)


def is_any_waiting(connection: Connection) -> bool:
    """Return whether any order has no answer of its source; no statement follows in the transaction."""
    [[(is_any,)]] = dialects.of(connection).run_all(connection, [(_ANY_WAITS, {})], last=True)
    return bool(is_any)


def all_waiting(connection: Connection) -> list[ReplayOrder]:
    """Return all orders that no source has answered."""
    return _orders(connection, replays.c.state == ReplayState.ORDERED)


def waiting_or_ended_since(connection: Connection, moment_us: int) -> list[ReplayOrder]:
    """Return the orders that wait, and those that have ended since *moment_us*, newest first."""
    return _orders(connection, or_(replays.c.state == ReplayState.ORDERED, replays.c.ended_us >= moment_us))


def every_order(connection: Connection) -> list[ReplayOrder]:
    """Return the last order of each queue, newest first."""
    return _orders(connection)


_ANY_WAITS: Final = select(exists(select(replays.c.queue_id).where(replays.c.state == ReplayState.ORDERED)))


def _first(connection: Connection, *where: ColumnElement[bool]) -> ReplayOrder | None:
    return next(iter(_orders(connection, *where)), None)


def _orders(connection: Connection, *where: ColumnElement[bool]) -> list[ReplayOrder]:
    columns: list[ColumnElement[Any]] = [receive_queues.c.client, receive_queues.c.source, *replays.c]
    joined = select(*columns).join_from(replays, receive_queues, receive_queues.c.queue_id == replays.c.queue_id)
    found = connection.execute(joined.where(*where).order_by(replays.c.ordered_us.desc()))
    return [
        ReplayOrder(
            ClientName(row.client),
            SiteId(row.source),
            row.queue_id,
            row.order_id,
            ReplayWish(row.from_seq, row.branch, row.since_us, bool(row.undo)),
            row.person,
            row.ordered_us,
            ReplayState(row.state),
            row.outcome,
            row.ended_us,
        )
        for row in found
    ]
