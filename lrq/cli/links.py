"""The links of a site as operators see them: each with its wish, its session, its state and the reason."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine

from lrq.cli.words import some
from queues.clock import iso
from queues.database.transactions import reading
from queues.names import ClientName, SiteId
from queues.receive.stream_ends import StreamEnd, stream_ends
from queues.send_log.links import LinkRow, closed_links, draining_links, every_link
from queues.send_log.named_sites import named_sites
from queues.send_log.port import SessionKey
from queues.send_log.replica_members import read_groups
from queues.send_log.sessions import SessionRow, every_session
from queues.states import LinkWish

#: The state of a link whose session was forgotten.
FORGOTTEN = "forgotten"


class Link(NamedTuple):
    """A link from this site: its wish, and its session if there is one.

    `is_group`: the destination is the name of a group of replicas, which is closed while all its members are.
    """

    key: SessionKey
    row: LinkRow | None
    session: SessionRow | None
    is_group: bool = False

    @property
    def wish(self) -> LinkWish:
        """The operator's wish."""
        return LinkWish.RUNNING if self.row is None else self.row.wish

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing is kept for the link."""
        return not self.is_group and self.session is None and self.wish in (LinkWish.ENDED, LinkWish.RELEASED)

    @property
    def state(self) -> str:
        """The state as `lrq link list` shows it."""
        return FORGOTTEN if self.is_forgotten else self.wish.value

    @property
    def reason(self) -> str:
        """Why the link is in its state, in words."""
        if self.is_group:
            return "the links to all members have ended: new entries for the name are refused"
        if self.wish is LinkWish.RELEASED:
            return "the link begins again with the site in `peers`"
        if self.is_forgotten:
            return "new entries are refused until `lrq link begin`"
        if self.wish is LinkWish.ENDED and self.row is not None:
            return f"the site has everything, and the end of the stream, since {iso(self.row.ended_us)}"
        if self.session is None:
            return "no session has begun: see `lrq status`"
        return f"{self.session.state.value}: {self.session.reason}".removesuffix(": ")


@dataclass(frozen=True, slots=True)
class Links:
    """The links from a site, and the ends of the streams to it."""

    outgoing: Sequence[Link]
    incoming: Sequence[StreamEnd]

    def of(self, sites: Collection[SiteId], client: ClientName | None) -> "Links":
        """Return the links with *sites*, of *client* or (None) of all clients."""
        return Links(
            [each for each in self.outgoing if each.key.destination in sites and client in (None, each.key.client)],
            [each for each in self.incoming if each.queue.source in sites and client in (None, each.queue.client)],
        )

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq link list --json`."""
        return {"links": [_as_json(each) for each in self.outgoing], "queues": [_end_json(e) for e in self.incoming]}


def read_links(connection: Connection) -> Links:
    """Return all links of the site, by destination and client."""
    rows = {row.key: row for row in every_link(connection)}
    sessions = {SessionKey(row.client, row.destination): row for row in every_session(connection)}
    groups = read_groups(connection)
    keys = {*rows, *sessions, *(key for key in named_sites(connection) if key.destination not in groups)}
    ordered = sorted(keys, key=lambda key: (key.destination, key.client))
    found = [Link(key, rows.get(key), sessions.get(key), key.destination in groups) for key in ordered]
    return Links(found, stream_ends(connection))


def list_links(engine: Engine) -> Links:
    """Return all links of the site."""
    with reading(engine, snapshot=True) as connection:
        return read_links(connection)


def closed_warning(engine: Engine, site: SiteId) -> str | None:
    """Return the sentence for a peer whose links have ended; None if all of its links run."""
    with reading(engine) as connection:
        closed = sorted(client for client, sites in closed_links(connection).items() if site in sites)
    if not closed:
        return None
    links = (
        f"the link of {closed[0]} to {site} has" if len(closed) == 1 else f"the links of {some(closed)} to {site} have"
    )
    return f"{links} ended, so new entries are refused: `lrq link begin {site}` accepts them again"


def draining_warning(engine: Engine, site: SiteId) -> str | None:
    """Return the sentence for a site that is no peer any more while links to it drain; None without such links."""
    with reading(engine) as connection:
        draining = sorted(key.client for key in draining_links(connection) if key.destination == site)
    if not draining:
        return None
    links = f"the link of {draining[0]}" if len(draining) == 1 else f"the links of {some(draining)}"
    return f"{links} to {site} cannot finish without the peer: add {site} again, and wait (`lrq link list`)"


def _as_json(link: Link) -> dict[str, Any]:
    row, session = link.row, link.session
    return {
        **link.key._asdict(),
        "state": link.state,
        "reason": link.reason,
        "session": None if session is None else session.state.value,
        "acked_seq": None if session is None else session.acked_seq,
        "asked_at": iso(row.asked_us) if row else None,
        "ended_at": iso(row.ended_us) if row and row.ended_us else None,
    }


def _end_json(end: StreamEnd) -> dict[str, Any]:
    return {"client": end.queue.client, "source": end.queue.source, "state": end.state.value, "reason": end.reason}
