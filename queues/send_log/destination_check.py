"""Refuse destinations before anything is written: the site itself, and in strict mode every unknown name.

The facts about the site are read once and kept for `FRESH` seconds, so most calls send no further statement. A refusal
always rests on facts that were read at that moment.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Pool, select

from queues.clock import SYSTEM_CLOCK
from queues.database import dialects
from queues.database.schema import require_visible
from queues.database.tables import known_sites, log_head, site
from queues.destinations import members
from queues.errors import UnknownDestinationError
from queues.names import SiteId
from queues.send_log.known_sites import names_in
from queues.send_log.outbox import NewEntry

#: The seconds after which a sender reads again which sites are known.
FRESH: Final = 5.0
#: The most accepted sets in memory.
_MAX_ACCEPTED: Final = 4_096


@dataclass(frozen=True, slots=True)
class SenderFacts:
    """The site's own id; in strict mode also the sites that it may send to, otherwise `allowed` is None."""

    own: SiteId
    allowed: frozenset[SiteId] | None
    read_at: float
    # Numbers of sets without a refused name.
    accepted: set[int] = field(default_factory=set, compare=False)


_facts: WeakKeyDictionary[Pool, SenderFacts] = WeakKeyDictionary()


def check_destinations(connection: Connection, entries: Sequence[NewEntry]) -> None:
    """Raise `UnknownDestinationError` if an entry names this site itself, or in strict mode an unknown site."""
    facts, is_fresh = _recall(connection)
    for entry in entries:
        if entry.destinations.number in facts.accepted:
            continue
        names = members(entry.destinations.text)
        if not is_fresh and refusal(names, facts.own, facts.allowed):
            facts, is_fresh = _read(connection), True
        words = refusal(names, facts.own, facts.allowed)
        if words:
            raise UnknownDestinationError(words)
        if len(facts.accepted) < _MAX_ACCEPTED:
            facts.accepted.add(entry.destinations.number)


def refused_destinations(connection: Connection, entries: Sequence[NewEntry]) -> str:
    """Return the sentence of `check_destinations` about the first refused destination; empty if there is none."""
    try:
        check_destinations(connection, entries)
    except UnknownDestinationError as error:
        return str(error)
    return ""


def refusal(names: Sequence[SiteId], own: SiteId, allowed: frozenset[SiteId] | None) -> str:
    """Return one sentence about the first destination that is refused; empty if there is none. Pure."""
    if own in names:
        return f"{own!r} is this site itself, which has the entry already: name other sites as destinations"
    unknown = next((name for name in names if allowed is not None and name not in allowed), None)
    if unknown is None or allowed is None:
        return ""
    near = difflib.get_close_matches(unknown, allowed, 1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return f"no peer of {own!r} is named {unknown!r}{meant}: correct the name, or add the site to `peers`"


def _recall(connection: Connection) -> tuple[SenderFacts, bool]:
    """Return the facts, and whether they were read just now."""
    facts = _facts.get(connection.engine.pool)
    if facts is not None and SYSTEM_CLOCK.monotonic() - facts.read_at < FRESH:
        return facts, False
    return _read(connection), True


def _read(connection: Connection) -> SenderFacts:
    dialect = dialects.find(connection)
    if dialect and dialect.one_writer:
        # Begun with a read, a transaction of SQLite could not write any more after the commit of another one.
        connection.execute(log_head.update().values(last_id=log_head.c.last_id))
    if connection.engine.pool not in _facts:
        require_visible(connection)
    row = connection.execute(_FACTS).first()
    own, peers, known_only = ("", "", False) if row is None else row
    allowed = frozenset(names_in(peers)) if known_only else None
    found = SenderFacts(SiteId(own), allowed, SYSTEM_CLOCK.monotonic())
    _facts[connection.engine.pool] = found
    return found


_FACTS = select(site.c.site_id, known_sites.c.peers, known_sites.c.known_only).select_from(
    site.outerjoin(known_sites, known_sites.c.one == 1)
)
