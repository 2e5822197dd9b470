"""Order applied entries of a receive queue again, at the site that has applied them.

See docs/operating.md, "Entries applied wrongly". A listener that applied entries wrongly is mended first. The source
answers an order in its next negotiation, which comes within about two seconds while both servers work. Every order and
its end is stored among the actions of operators.
"""

from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Connection, Engine

from lr_client.arguments import checked_timeout
from queues import names
from queues.clock import SYSTEM_CLOCK, Clock, poll
from queues.database import actions
from queues.database.engine_check import require_engine
from queues.database.transactions import reading, writing
from queues.errors import InvalidPositionError, UsageError, WaitTimeoutError
from queues.names import ClientName, SiteId
from queues.positions import Position, is_number, parse_position
from queues.receive import replay_marks, replays
from queues.receive.replays import ReplayOrder, ReplayState, ReplayWish
from sink.protocol.replay_rules import QueueFacts, refuse_replay

__all__ = ["ReplayOrder", "ReplayState", "cancel_replay", "replay_orders", "request_replay", "wait_replay"]

_LARGEST: Final = 2**63 - 1
_PAUSE: Final = 0.1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def request_replay(
    engine: Engine,
    client: str,
    source: str,
    *,
    start: int | Position | str | None = None,
    since: datetime | None = None,
    undo: bool = True,
    person: str = "",
) -> ReplayOrder:
    """Order that applied entries of *client* from *source* come again; a later order replaces one that waits.

    Whole ticks come again, so some entries before the wanted ones may come too. Entries that are not applied yet
    follow them, in order.

    Args:
        engine: The database of the site that has applied the entries.
        client: The client.
        source: The site that sends the entries.
        start: The first entry that shall come again: its number, or its position, also as `<branch>@<number>`.
        since: In place of *start*: entries that the source has committed since then, by its clock. UTC without a zone.
        undo: Whether the listener's `on_rollback` undoes the entries first. With False they are applied over the
            present rows.
        person: The name to store with the order.

    Raises `UsageError` for an unknown queue, and if the site knows already that the replay is impossible. The source
    may refuse the order later, for example because it has trimmed the entries: see `wait_replay`.
    """
    require_engine(engine, "request_replay")
    return place_replay(engine, client, source, replay_wish(start, since, undo=undo), person=person)


def place_replay(engine: Engine, client: str, source: str, wish: ReplayWish, *, person: str = "") -> ReplayOrder:
    """Order *wish* as `request_replay` does, and raise its errors."""
    of, sender = names.client_name(client), names.site_id(source)
    with writing(engine) as connection:
        marks = replay_marks.read_marks(connection, of, sender)
        if marks is None:
            raise UsageError(f"no entry of client {of} has come from {sender}: `lrq status` shows the receive queues")
        refusal = refuse_replay(QueueFacts(*marks[1:]), wish.from_seq - 1 if wish.from_seq else None, undo=wish.undo)
        if refusal:
            raise UsageError(f"{of} from {sender}: {refusal}")
        replays.place(connection, marks.queue_id, wish, person)
        order = _last(connection, of, sender)
        actions.note(connection, person, replays.ACTION, f"replay of {order.name} ordered: {order.words}")
    return order


def wait_replay(engine: Engine, order: ReplayOrder, timeout: float, *, clock: Clock = SYSTEM_CLOCK) -> ReplayOrder:
    """Wait until the source has answered *order*, and return the order with its outcome.

    Raises `WaitTimeoutError` after *timeout* seconds; the order still stands then. Raises `UsageError` if a later order
    has replaced it, or the queue was forgotten. So does a timeout that is no number.
    """
    require_engine(engine, "wait_replay")
    checked_timeout(timeout)

    def look() -> ReplayOrder | None:
        with reading(engine) as connection:
            found = replays.of_queue(connection, order.client, order.source)
        return found if found is not None and found.order_id == order.order_id else None

    found = poll(look, lambda each: each is None or not each.waits, timeout=timeout, pause=_PAUSE, clock=clock)
    if found is None:
        raise UsageError(f"the order for a replay of {order.name} was replaced or forgotten")
    if found.waits:
        raise WaitTimeoutError(
            f"{order.source} has not answered for {timeout:g} s: the order stands until {order.source} connects, or "
            f"until `lrq replay cancel {order.client} {order.source}`"
        )
    return found


def cancel_replay(engine: Engine, client: str, source: str, *, person: str = "") -> ReplayOrder:
    """Withdraw the order of a queue that the source has not answered; return it. Raises `UsageError` without one."""
    require_engine(engine, "cancel_replay")
    of, sender = names.client_name(client), names.site_id(source)
    with writing(engine) as connection:
        order = replays.of_queue(connection, of, sender)
        words = "nothing has changed"
        if order is None or not replays.end(connection, order, ReplayState.CANCELLED, words, person=person):
            raise UsageError(
                f"no order for a replay of {of} from {sender} waits: `lrq replay list` shows the last ones"
            )
        return _last(connection, of, sender)


def replay_orders(engine: Engine) -> list[ReplayOrder]:
    """Return the last order of each queue, newest first."""
    require_engine(engine, "replay_orders")
    with reading(engine) as connection:
        return replays.every_order(connection)


def _last(connection: Connection, client: ClientName, source: SiteId) -> ReplayOrder:
    order = replays.of_queue(connection, client, source)
    assert order is not None
    return order


def replay_wish(start: int | Position | str | None, since: datetime | None, *, undo: bool) -> ReplayWish:
    """Return the wish of an order; raise `UsageError` for a wrong one. The arguments are those of `request_replay`."""
    if (start is None) is (since is None):
        raise UsageError("an order for a replay needs either the first entry or a time")
    if since is not None:
        return ReplayWish(since_us=micros(since), undo=undo)
    position = entry_position(start)
    return ReplayWish(position.seq, position.branch, undo=undo)


def micros(moment: datetime) -> int:
    """Return a time in microseconds since 1970, never below 0; UTC without a zone.

    Raises `UsageError` for an object of another kind.
    """
    if not isinstance(moment, datetime):
        raise UsageError(f"{moment!r} is no moment: pass a datetime")
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(int((known - _EPOCH).total_seconds() * 1_000_000), 0)


def entry_position(given: int | Position | str | None) -> Position:
    """Return the place of an entry; the branch is empty for a number alone. Raises `InvalidPositionError`."""
    position = given if isinstance(given, Position) else _position(given)
    if not 0 < position.seq <= _LARGEST:
        raise InvalidPositionError(f"{position.seq} is the number of no entry: the first one is 1")
    return position


def replay_moment(text: str) -> datetime:
    """Return the moment that a person has written, such as 2026-07-01T12:00Z; raise `UsageError` for another text."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time: write one such as 2026-07-01T12:00Z") from None


def _position(start: int | str | None) -> Position:
    text = str(start).replace(",", "")
    if "@" in text:
        return parse_position(text)
    if not is_number(text):
        raise InvalidPositionError(f"{start!r} is neither the number of an entry nor <branch>@<number>")
    return Position("", int(text))
