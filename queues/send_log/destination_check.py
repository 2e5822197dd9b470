"""Refuse destinations before anything is written: the site itself, ended links, and in strict mode unknown names.

The facts about the site are read once and kept for `FRESH` seconds, so most calls send no further statement. A refusal
always rests on facts that were read at that moment. A link may have ended since: `confirm_links` compares the number of
the last change, which each write of entries reads, with that of the facts.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Pool, exc, exists, select, text

from queues.clock import SYSTEM_CLOCK
from queues.database import dialects
from queues.database.schema import require_visible
from queues.database.tables.destinations import known_sites
from queues.database.tables.log import log_head
from queues.database.tables.sessions import link_changes, link_wishes
from queues.database.tables.site import site
from queues.database.transactions import mapped_setup_errors
from queues.destinations import members
from queues.errors import LinkEndedError, UnknownDestinationError, first_line
from queues.names import SiteId
from queues.send_log.known_sites import names_in
from queues.send_log.links import closed_links
from queues.send_log.outbox import NewEntry

#: The seconds after which a sender reads again which sites are known.
FRESH: Final = 5.0
#: The state of PostgreSQL's error for an ended link.
LINK_ENDED: Final = "LR011"
#: The most accepted sets in memory.
_MAX_ACCEPTED: Final = 4_096


@dataclass(frozen=True, slots=True)
class SenderFacts:
    """The site's own id; in strict mode also the sites that it may send to, otherwise `allowed` is None.

    `closed`: the destinations of ended links, by client, as of the change of links with the number `link_change`.
    """

    own: SiteId
    allowed: frozenset[SiteId] | None
    read_at: float
    closed: Mapping[str, frozenset[SiteId]] = field(default_factory=dict)
    link_change: int = 0
    # Numbers of sets without a refused name.
    accepted: set[int] = field(default_factory=set, compare=False)

    def problem(self, client: str, names: Sequence[SiteId]) -> UnknownDestinationError | LinkEndedError | None:
        """Return the error for the first destination that is refused."""
        if words := refusal(names, self.own, self.allowed):
            return UnknownDestinationError(words)
        ended = next((name for name in names if name in self.closed.get(client, ())), None)
        return None if ended is None else LinkEndedError(link_ended(client, ended))


_facts: WeakKeyDictionary[Pool, SenderFacts] = WeakKeyDictionary()


def check_destinations(connection: Connection, client: str, entries: Sequence[NewEntry]) -> None:
    """Raise `UnknownDestinationError` if an entry names this site itself, or in strict mode an unknown site.

    Raises `LinkEndedError` if the link of *client* to a destination has ended.
    """
    facts, is_fresh = _recall(connection)
    for entry in entries:
        if entry.destinations.number in facts.accepted:
            continue
        names = members(entry.destinations.text)
        if not is_fresh and facts.problem(client, names):
            facts, is_fresh = _read(connection), True
        error = facts.problem(client, names)
        if error is not None:
            raise error
        if len(facts.accepted) < _MAX_ACCEPTED:
            facts.accepted.add(entry.destinations.number)


def refused_destinations(connection: Connection, client: str, entries: Sequence[NewEntry]) -> str:
    """Return the sentence of `check_destinations` about the first refused destination; empty if there is none."""
    try:
        check_destinations(connection, client, entries)
    except (UnknownDestinationError, LinkEndedError) as error:
        return str(error)
    return ""


def refused_each(connection: Connection, requests: Iterable[tuple[str, Sequence[NewEntry]]]) -> list[str]:
    """Return the sentence of `refused_destinations` about each request, a client's entries; equal sets count once."""
    known: dict[tuple[int, ...], str] = {}
    refused: list[str] = []
    for client, entries in requests:
        # The number of a set names the client too.
        sets = tuple([entry.destinations.number for entry in entries])
        if sets not in known:
            known[sets] = refused_destinations(connection, client, entries)
        refused.append(known[sets])
    return refused


def known_change(connection: Connection) -> int:
    """Return the number of the change of links on which the facts rest."""
    return _recall(connection)[0].link_change


def confirm_links(connection: Connection, client: str, entries: Sequence[NewEntry], change: int) -> None:
    """Raise `LinkEndedError` if a link of the *entries* has ended since the facts were read.

    *change* is the number of the last change, read in the statement that writes the entries. On PostgreSQL the error
    ends the transaction, because the entries are written.
    """
    facts = _facts.get(connection.engine.pool)
    if facts is not None and facts.link_change == change:
        return
    names = sorted({name for entry in entries for name in members(entry.destinations.text)})
    dialect = dialects.find(connection)
    if dialect is not None and not dialect.one_writer:
        try:
            change = require_links(connection, client, names)
        except LinkEndedError:
            _facts.pop(connection.engine.pool, None)
            raise
    _note_change(connection, change)
    check_destinations(connection, client, entries)


def forget_old_facts(connection: Connection, change: int) -> None:
    """Read the facts again unless they rest on the last *change* of links; SQLite, under the write lock."""
    if _recall(connection)[0].link_change != change:
        _note_change(connection, change)


def require_links(connection: Connection, client: str, names: Sequence[SiteId]) -> int:
    """Raise `LinkEndedError` if one of the links has ended, after changes in progress; return the last change.

    PostgreSQL only.
    """
    asked = {"client": client, "names": list(names)}
    try:
        with mapped_setup_errors():
            return int(connection.execute(_CHECK_LINKS, asked).scalar_one())
    except exc.DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != LINK_ENDED:
            raise
        raise LinkEndedError(first_line(error.orig)) from error


def _note_change(connection: Connection, change: int) -> None:
    # The row may lack a number that the sequence has: after a change that was rolled back.
    _facts[connection.engine.pool] = replace(_read(connection), link_change=change)


def link_ended(client: str, destination: str) -> str:
    """Return the sentence about an ended link. Pure."""
    return f"the link of client {client!r} to {destination!r} has ended: leave the site out, or run `lrq link begin`"


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
    own, peers, known_only, change, has_links = ("", "", False, 0, False) if row is None else row
    allowed = frozenset(names_in(peers)) if known_only else None
    closed = closed_links(connection) if has_links else {}
    found = SenderFacts(SiteId(own), allowed, SYSTEM_CLOCK.monotonic(), closed, change or 0)
    _facts[connection.engine.pool] = found
    return found


_FACTS = select(
    site.c.site_id,
    known_sites.c.peers,
    known_sites.c.known_only,
    select(link_changes.c.number).scalar_subquery(),
    exists(select(link_wishes.c.client)),
).select_from(site.outerjoin(known_sites, known_sites.c.one == 1))
_CHECK_LINKS: Final = text("SELECT lrq_check_links(:client, CAST(:names AS text[]))")
