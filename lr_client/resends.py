"""Send a range of the log again to one site, as new entries, at the source.

See docs/operating.md, "A range once more". The new entries come after all earlier ones, so the listener undoes nothing
and skips nothing. Each source transaction is one transaction again. The order moves in the same transaction. So a
command that is killed leaves an order that `continue_resend` carries on, and each entry is sent again once.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, Engine

from lr_client.connections.dispatch import write
from lr_client.resend_ranges import begin_order
from queues import names
from queues.database.engine_check import require_engine
from queues.database.transactions import reading, writing, writing_briefly
from queues.destinations import destination_set
from queues.errors import StoreUnavailableError, UsageError
from queues.positions import Position, Tick
from queues.send_log import resends
from queues.send_log.opening import open_log
from queues.send_log.port import Log, SessionKey, TickLimits
from queues.send_log.replica_sets import regrouped_seq
from queues.send_log.resend_rules import (
    ResendPortion,
    again,
    numbered,
    portions,
    sent_rows,
)
from queues.send_log.resends import ResendOrder, ResendState

__all__ = ["ResendOrder", "ResendState", "cancel_resend", "continue_resend", "resend_entries", "resend_orders"]

#: One read of the log; a larger source transaction is sent again in pieces of this size.
_LIMITS: Final = TickLimits(1_000, 1024 * 1024)


def resend_entries(
    engine: Engine,
    client: str,
    destination: str,
    *,
    start: int | Position | str | None = None,
    end: int | Position | str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    person: str = "",
) -> ResendOrder:
    """Send the entries of a range again to one site, and return the order with its result.

    The new entries have new numbers and the header `lrq-resent`, with the position of before. Only a listener whose
    entries stand alone may get old ones later. Entries with an item key are left out, because each is a state.

    Args:
        engine: The database of the source.
        client: The client.
        destination: The site that gets the entries again.
        start: The first entry: its number, or its position, also as `<branch>@<number>`.
        end: The last entry, as *start*.
        since: In place of *start* and *end*: all entries that the source has committed from then on, by its clock.
        until: The end of that time, not included.
        person: The name to store with the order.

    Raises `UsageError` for an unknown session, and for a range that the log has not as a whole. Raises `UsageError`
    also while an earlier order has not ended. Raises `LinkEndedError` if the link has ended. Raises `TrimmedError` if
    the log loses the entries meanwhile, and `StoreUnavailableError`. After an error in the middle the order stands.
    """
    require_engine(engine, "resend_entries")
    key = SessionKey(names.client_name(client), names.site_id(destination))
    order = begin_order(engine, key, (start, end), (since, until), person)
    return _carry_out(engine, order)


def continue_resend(engine: Engine, client: str, destination: str) -> ResendOrder:
    """Carry on an order that was interrupted; raises like `resend_entries`, and `UsageError` without such an order."""
    require_engine(engine, "continue_resend")
    with reading(engine) as connection:
        order = _unfinished(connection, client, destination)
    return _carry_out(engine, order)


def cancel_resend(
    engine: Engine, client: str, destination: str, *, order_id: str = "", person: str = ""
) -> ResendOrder:
    """End an order without its rest, and return the order; raises `UsageError` if none has begun and not ended.

    With *order_id*, only that order is ended, and no later one. A command that still works on the order sends nothing
    more, and raises `UsageError`.
    """
    require_engine(engine, "cancel_resend")
    key = SessionKey(names.client_name(client), names.site_id(destination))
    with writing(engine) as connection:
        order = resends.cancel(connection, key, person, order_id)
    if order is None:
        raise _none_unfinished(key)
    return order


def resend_orders(engine: Engine) -> list[ResendOrder]:
    """Return the last order of each session, newest first."""
    require_engine(engine, "resend_orders")
    with reading(engine) as connection:
        return resends.every_order(connection)


def _unfinished(connection: Connection, client: str, destination: str) -> ResendOrder:
    key = SessionKey(names.client_name(client), names.site_id(destination))
    order = resends.last_order(connection, key)
    if order is None or order.state is not ResendState.BEGUN:
        raise _none_unfinished(key)
    return order


def _none_unfinished(key: SessionKey) -> UsageError:
    return UsageError(
        f"no resend of {key.client} to {key.destination} was interrupted: `lrq resend list` shows the last ones"
    )


# --- the new entries --------------------------------------------------------------------------------------------


def _carry_out(engine: Engine, order: ResendOrder) -> ResendOrder:
    try:
        return _finished(engine, order)
    except StoreUnavailableError as error:
        rest = f"`lrq resend continue {order.client} {order.destination}` sends the rest"
        raise StoreUnavailableError(f"{error}; {rest}") from error


def _finished(engine: Engine, order: ResendOrder) -> ResendOrder:
    log = open_log(engine)
    left_out = 0
    for tick, portion in _portions(log, order):
        left_out += portion.left_out
        if portion.rows:
            order = _send(engine, order, tick, portion._replace(left_out=left_out))
            left_out = 0
    with writing_briefly(engine) as connection:
        order = _advance(connection, order, ResendPortion((), order.to_seq, left_out))
        return _moved(resends.complete(connection, order), order)


def _portions(log: Log, order: ResendOrder) -> Iterator[tuple[Tick, ResendPortion]]:
    """Yield the rest of an order; a source transaction above the limits of a tick comes in pieces."""
    seq, done = order.sent_seq, order.sent_seq
    while seq < order.to_seq:
        ticks = log.ticks_after(seq, _LIMITS)
        if ticks[0].is_large:
            number = max(seq, ticks[0].start_seq)
            for piece in log.stream(order.key, ticks[0], number - ticks[0].start_seq, _LIMITS):
                rows = numbered(piece.rows, number)
                number += len(rows)
                yield from ((ticks[0], each) for each in portions(rows, done, order.to_seq))
                if number >= order.to_seq:
                    break
        else:
            for tick, found in zip(ticks, log.read(order.key, ticks), strict=True):
                rows = numbered(sent_rows(found), tick.start_seq)
                yield from ((tick, each) for each in portions(rows, done, order.to_seq))
        seq = ticks[-1].end_seq


def _send(engine: Engine, order: ResendOrder, tick: Tick, portion: ResendPortion) -> ResendOrder:
    targets = destination_set(order.client, [order.destination])
    # Briefly: a command that stands still must not keep the row of the order, for which a cancel waits.
    with writing_briefly(engine) as connection:
        # First the order: a second command waits for its row, and then changes nothing.
        moved = _advance(connection, order, portion)
        write(connection, order.client, [again(each, tick.branch, targets) for each in portion.rows])
    return moved


def _advance(connection: Connection, order: ResendOrder, done: ResendPortion) -> ResendOrder:
    # Other groups give the entries other numbers, so the order would go on in another place.
    if order.from_seq <= regrouped_seq(connection):
        raise UsageError(
            f"the groups of replicas have changed during the resend of {order.name}: "
            f"`lrq resend cancel {order.client} {order.destination}`"
        )
    return _moved(resends.advance(connection, order, done), order)


def _moved(moved: ResendOrder | None, before: ResendOrder) -> ResendOrder:
    if moved is None:
        raise UsageError(f"the resend of {before.name} was cancelled, or another command carries it out")
    return moved
