"""The wishes of operators for links: a link is the replication of one client to one destination (docs/links.md).

Each change raises a number, by which senders notice that their facts are old. PostgreSQL keeps the number in a sequence
too, because a transaction with an old snapshot sees no newer row.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    exists,
    false,
    insert,
    literal_column,
    or_,
    select,
    text,
    update,
)

from queues.clock import now_us
from queues.database import dialects
from queues.database.dialect import Dialect
from queues.database.left_out import require_stored
from queues.database.tables.sessions import link_changes, link_wishes
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey, keys_of
from queues.states import LinkWish

#: New entries for a link with such a wish are refused.
CLOSED: Final = (LinkWish.DRAINING.value, LinkWish.ENDED.value)
#: No entry is kept for a link with such a wish.
UNCLAIMED: Final = (LinkWish.ENDED.value, LinkWish.RELEASED.value)

_KEYS: Final = select(link_wishes.c.client, link_wishes.c.destination)
#: Selects the links without a claim on old entries, for sending with other statements.
READ_UNCLAIMED: Final = _KEYS.where(or_(*(link_wishes.c.wish == wish for wish in UNCLAIMED)))


class LinkRow(NamedTuple):
    """The wish for one link; times in microseconds, `ended_us` is 0 before the end."""

    client: ClientName
    destination: SiteId
    wish: LinkWish
    asked_us: int
    ended_us: int

    @property
    def key(self) -> SessionKey:
        """The session of the link."""
        return SessionKey(self.client, self.destination)


def every_link(connection: Connection) -> list[LinkRow]:
    """Return the links with a wish, by destination and client; all other links run."""
    [found] = dialects.of(connection).run_all(connection, [(_EVERY, {})])
    return [_link_row(row) for row in found]


def links_and_change(connection: Connection) -> tuple[list[LinkRow], int]:
    """Return the links of `every_link`, and the number of `last_change` from before; no statement may follow.

    Both take one message to the database.
    """
    [[(number,)], found] = dialects.of(connection).run_all(connection, [(_LAST_CHANGE, {}), (_EVERY, {})], last=True)
    return [_link_row(row) for row in found], int(number)


def closed_links(connection: Connection) -> Mapping[str, frozenset[SiteId]]:
    """Return the destinations for which new entries are refused, by client."""
    found: dict[str, set[SiteId]] = {}
    chosen = select(link_wishes.c.client, link_wishes.c.destination).where(link_wishes.c.wish.in_(CLOSED))
    for client, destination in connection.execute(chosen):
        found.setdefault(client, set()).add(SiteId(destination))
    return {client: frozenset(names) for client, names in found.items()}


def unclaimed(connection: Connection) -> frozenset[SessionKey]:
    """Return the links without a claim on old entries."""
    return frozenset(keys_of(connection.execute(READ_UNCLAIMED).all()))


def draining_links(connection: Connection) -> frozenset[SessionKey]:
    """Return the links that have ended and are not finished."""
    draining = _KEYS.where(link_wishes.c.wish == LinkWish.DRAINING.value)
    return frozenset(keys_of(connection.execute(draining).all()))


def set_wish(connection: Connection, keys: Collection[SessionKey], wish: LinkWish) -> None:
    """Replace the wishes for the links *keys*; commit at once, because senders wait for the commit."""
    now = now_us()
    ended = now if wish is LinkWish.ENDED else 0
    _lock(connection)
    for key in sorted(keys):
        connection.execute(delete(link_wishes).where(*_own(key)))
        if wish is not LinkWish.RUNNING:
            values = {**key._asdict(), "wish": wish.value, "asked_us": now, "ended_us": ended}
            connection.execute(insert(link_wishes).values(values))
    _raise_number(connection)


def fence(connection: Connection) -> int:
    """Return a transaction id above those of all transactions that may have entries for a link that has ended.

    The connection writes, and the end is committed before. On SQLite no other transaction writes meanwhile: return 0.
    """
    if dialects.of(connection).one_writer:
        return 0
    return int(connection.execute(_OWN_ID).scalar_one())


def note_finished(connection: Connection, key: SessionKey, asked_us: int) -> bool:
    """Record that a draining link has ended, because its sink has the end of the stream.

    Return False if the link does not drain by the wish of *asked_us* any more.
    """
    draining = _draining_by(key, asked_us)
    values = {"wish": LinkWish.ENDED.value, "ended_us": now_us()}
    return connection.execute(update(link_wishes).where(*draining).values(values)).rowcount > 0


def is_draining(connection: Connection, key: SessionKey, asked_us: int) -> bool:
    """Return whether a link drains by the wish of *asked_us*."""
    found = select(link_wishes.c.client).where(*_draining_by(key, asked_us))
    return connection.execute(found).first() is not None


def begin_by_itself(connection: Connection, key: SessionKey) -> bool:
    """Remove the wish of a released link, whose site is a peer again; return whether there was one."""
    released = (*_own(key), link_wishes.c.wish == LinkWish.RELEASED.value)
    return connection.execute(delete(link_wishes).where(*released)).rowcount > 0


def last_change(connection: Connection) -> int:
    """Return the number of the last change that the transaction sees."""
    return int(connection.execute(_LAST_CHANGE).scalar_one())


def mend_number(connection: Connection) -> None:
    """Make both places of the number equal again, after a change that was rolled back or restored from a backup."""
    if dialects.of(connection).one_writer:
        return
    if connection.execute(_DIFFER).first() is not None:
        _lock(connection)
        connection.execute(_SET, {"number": connection.execute(_MEND).scalar_one()})


def is_number_wrong(dialect: Dialect) -> ColumnElement[bool]:
    """Return the condition that `mend_number` has work."""
    return false() if dialect.one_writer else exists(_DIFFER)


def _lock(connection: Connection) -> None:
    connection.execute(select(link_changes.c.number).with_for_update()).one()


def _raise_number(connection: Connection) -> None:
    if dialects.of(connection).one_writer:
        raised = connection.execute(update(link_changes).values(number=link_changes.c.number + 1)).rowcount
        # Senders would not hear of the change, and their entries for an ended link would go nowhere.
        require_stored(link_changes.name, raised, 1)
    else:
        # The sequence changes at once, the row with the commit. A sender that sees only the first change waits.
        numbers = connection.execute(_NEXT).scalars().all()
        require_stored(link_changes.name, len(numbers), 1)
        (number,) = numbers
        connection.execute(_SET, {"number": number})


def _draining_by(key: SessionKey, asked_us: int) -> tuple[ColumnElement[bool], ...]:
    return (*_own(key), link_wishes.c.wish == LinkWish.DRAINING.value, link_wishes.c.asked_us == asked_us)


def _own(key: SessionKey) -> Iterable[ColumnElement[bool]]:
    return (link_wishes.c.client == key.client, link_wishes.c.destination == key.destination)


def _link_row(row: Sequence[Any]) -> LinkRow:
    made = LinkRow._make(row)
    return made._replace(wish=LinkWish(made.wish))


_LAST_CHANGE: Final = select(link_changes.c.number)
_EVERY: Final = select(*(link_wishes.c[name] for name in LinkRow._fields)).order_by(
    link_wishes.c.destination, link_wishes.c.client
)
_NEXT: Final = text(
    "UPDATE lrq_link_changes SET number = greatest(number, (SELECT last_value FROM lrq_link_change)) + 1"
    " RETURNING number"
)
_SET: Final = text("SELECT setval('lrq_link_change', :number)")
_DIFFER: Final = select(link_changes.c.number).where(
    link_changes.c.number != literal_column("(SELECT last_value FROM lrq_link_change)")
)
_OWN_ID: Final = text("SELECT pg_current_xact_id()::text::bigint")
_MEND: Final = text(
    "UPDATE lrq_link_changes SET number = greatest(number, (SELECT last_value FROM lrq_link_change)) RETURNING number"
)
