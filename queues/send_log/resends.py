"""The orders to send a range of the log again. All in the caller's transaction.

A session has one row, that of its last order. The number up to which the order is carried out moves in the transaction
of the new entries.
"""

import uuid
from enum import StrEnum
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from queues.clock import now_us
from queues.database import actions
from queues.database.tables.resends import resends
from queues.errors import UsageError
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from queues.send_log.resend_rules import ResendPortion, SeqRange
from queues.words import cleaned

#: The name of the action in the log of actions.
ACTION: Final = "resend"


class ResendState(StrEnum):
    """The state of an order."""

    BEGUN = "begun"
    DONE = "done"
    CANCELLED = "cancelled"


class ResendOrder(NamedTuple):
    """One order: its session, its range, and how far it is carried out.

    Everything up to `sent_seq` is sent again: `entries` new entries. `left_out` entries have an item key.
    """

    client: ClientName
    destination: SiteId
    order_id: str
    from_seq: int
    to_seq: int
    sent_seq: int
    entries: int
    left_out: int
    person: str
    ordered_us: int
    state: ResendState
    ended_us: int

    @property
    def key(self) -> SessionKey:
        """The session."""
        return SessionKey(self.client, self.destination)

    @property
    def name(self) -> str:
        """Name the session for people."""
        return f"{self.client} to {self.destination}"

    @property
    def words(self) -> str:
        """The range and the result in words."""
        noun = "entry" if self.entries == 1 else "entries"
        left_out = f", {self.left_out:,} with an item key left out" if self.left_out else ""
        return f"{self.from_seq:,} to {self.to_seq:,}: {self.entries:,} {noun} sent again{left_out}"


def last_order(connection: Connection, key: SessionKey) -> ResendOrder | None:
    """Return the last order of a session; None if there was none."""
    return next(iter(_orders(connection, *_of(key))), None)


def every_order(connection: Connection) -> list[ResendOrder]:
    """Return the last order of each session, newest first."""
    return _orders(connection)


def unfinished_orders(connection: Connection) -> list[ResendOrder]:
    """Return the orders that have begun and not ended, newest first: commands work on them, or were interrupted."""
    return _orders(connection, resends.c.state == ResendState.BEGUN)


def begin(connection: Connection, key: SessionKey, wanted: SeqRange, person: str) -> ResendOrder:
    """Store an order in the place of the session's last one; raise `UsageError` if that one has not ended."""
    # Another command may have begun an order since the caller looked: such a row stays, so the insertion fails.
    connection.execute(delete(resends).where(*_of(key), resends.c.state != ResendState.BEGUN))
    order = ResendOrder(
        *key, uuid.uuid4().hex, *wanted, wanted.from_seq - 1, 0, 0, cleaned(person), now_us(), ResendState.BEGUN, 0
    )
    try:
        connection.execute(insert(resends).values(order._asdict()))
    except IntegrityError as error:
        raise UsageError(f"another command has just begun a resend of {order.name}: see `lrq resend list`") from error
    words = f"resend of {order.name} begun: entries {wanted.from_seq:,} to {wanted.to_seq:,}"
    actions.note(connection, person, ACTION, words)
    return order


def advance(connection: Connection, order: ResendOrder, done: ResendPortion) -> ResendOrder | None:
    """Store that *done* is carried out, in the transaction of its entries.

    Return None if the order has ended, or if another command has carried it further.
    """
    moved = order._replace(
        sent_seq=done.end_seq, entries=order.entries + len(done.rows), left_out=order.left_out + done.left_out
    )
    values = {name: getattr(moved, name) for name in ("sent_seq", "entries", "left_out")}
    return moved if _change(connection, order, values) else None


def complete(connection: Connection, order: ResendOrder) -> ResendOrder | None:
    """Store that an order is done, also as an action of its person; None as for `advance`."""
    ended = order._replace(state=ResendState.DONE, ended_us=now_us())
    if not _change(connection, order, {"state": ended.state, "ended_us": ended.ended_us}):
        return None
    _note_end(connection, ended, order.person)
    return ended


def cancel(connection: Connection, key: SessionKey, person: str, order_id: str = "") -> ResendOrder | None:
    """End the order of a session without its rest, also as an action; None if no order has begun and not ended.

    With *order_id*, another order stays as it is.

    A command that still works on the order may carry it further until then, and sends nothing after the commit.
    """
    values = {"state": ResendState.CANCELLED, "ended_us": now_us()}
    # The first statement, because the row may move until the transaction has it.
    named = [resends.c.order_id == order_id] if order_id else []
    changed = update(resends).where(*_of(key), *named, resends.c.state == ResendState.BEGUN).values(values)
    if not connection.execute(changed).rowcount:
        return None
    [ended] = _orders(connection, *_of(key))
    _note_end(connection, ended, person or ended.person)
    return ended


def _note_end(connection: Connection, ended: ResendOrder, person: str) -> None:
    actions.note(connection, person, ACTION, f"resend of {ended.name} {ended.state.value}: {ended.words}")


def _change(connection: Connection, seen: ResendOrder, values: dict[str, object]) -> bool:
    own = (*_of(seen.key), resends.c.order_id == seen.order_id, resends.c.state == ResendState.BEGUN)
    changed = update(resends).where(*own, resends.c.sent_seq == seen.sent_seq).values(values)
    return connection.execute(changed).rowcount > 0


def _of(key: SessionKey) -> tuple[ColumnElement[bool], ...]:
    return resends.c.client == key.client, resends.c.destination == key.destination


def _orders(connection: Connection, *where: ColumnElement[bool]) -> list[ResendOrder]:
    columns = (resends.c[name] for name in ResendOrder._fields)
    found = connection.execute(select(*columns).where(*where).order_by(resends.c.ordered_us.desc()))
    return [ResendOrder._make(row)._replace(state=ResendState(row.state)) for row in found]
