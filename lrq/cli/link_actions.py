"""End, begin and forget the links of a site; `lrq.cli.links` lists them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine

from lrq.cli.exit_codes import NoError
from lrq.cli.links import Link, read_links
from lrq.cli.words import plural
from queues import send_snapshot
from queues.database.transactions import writing
from queues.names import ClientName, SiteId
from queues.receive.forgotten import forget_queue
from queues.receive.registry import ReceiveQueue
from queues.receive.stream_ends import StreamEnd, StreamState
from queues.replica_groups import named_sites as members_of
from queues.send_log.closed_groups import settle_names
from queues.send_log.forgotten import forget_sessions
from queues.send_log.links import set_wish
from queues.send_log.port import SessionKey
from queues.send_log.replica_members import read_groups
from queues.send_log.strangers import record_stranger
from queues.states import LinkWish, SessionState


class ForgottenLinks(NamedTuple):
    """The links and the receive queues of which nothing is kept any more."""

    links: Sequence[SessionKey]
    queues: Sequence[ReceiveQueue]

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq link forget --json`."""
        queues = [{"client": each.client, "source": each.source} for each in self.queues]
        return {"released": [key._asdict() for key in self.links], "queues": queues}

    def words(self, site: SiteId) -> str:
        """Return the line that reports success."""
        parts = [f"{plural(len(self.links), 'link')} to {site}"] if self.links else []
        parts += [f"{plural(len(self.queues), 'receive queue')} of {site}"] if self.queues else []
        return f"forgotten: {', '.join(parts)}"


def end(engine: Engine, site: SiteId, client: ClientName | None) -> list[SessionKey]:
    """End the links to *site*, or to all members of that group; return those that ran before.

    Raises `NoError` if there is no such link.
    """
    with writing(engine) as connection:
        sites = members_of([site], read_groups(connection))
        chosen = read_links(connection).of(sites, client).outgoing
        keys = [each.key for each in chosen]
        if client is not None:
            # A link may be closed before its first entry.
            keys = [SessionKey(client, each) for each in sites]
        if not keys:
            raise NoError(f"there is no link to {site}: name its client (--client) to refuse all entries")
        closed = {each.key for each in chosen if each.wish in (LinkWish.DRAINING, LinkWish.ENDED)}
        ended = [key for key in keys if key not in closed]
        if ended:
            set_wish(connection, ended, LinkWish.DRAINING)
            settle_names(connection, {key.client for key in ended})
        return ended


def begin(engine: Engine, site: SiteId, client: ClientName | None) -> list[SessionKey]:
    """Begin the ended links to *site* again; return them. Raises `NoError` if none has ended."""
    with writing(engine) as connection:
        sites = members_of([site], read_groups(connection))
        chosen = [each for each in read_links(connection).of(sites, client).outgoing if each.row is not None]
        if not chosen:
            raise NoError(f"no link to {site}{_of(client)} has ended")
        for each in chosen:
            if each.session is None:
                record_stranger(connection, each.key)
        keys = [each.key for each in chosen]
        set_wish(connection, keys, LinkWish.RUNNING)
        settle_names(connection, {key.client for key in keys})
        return keys


def forget(
    engine: Engine, site: SiteId, client: ClientName | None, *, force: bool, ways: Collection[str]
) -> ForgottenLinks:
    """Remove the sessions to *site*, its claims and its receive queues, of *client* or (None) of all clients.

    *ways* has "outgoing" for the links to the site, and "incoming" for the receive queues. Raises `NoError` if there
    are none, and without *force* if one is not finished.
    """
    with writing(engine) as connection:
        found = read_links(connection).of(members_of([site], read_groups(connection)), client)
        outgoing = [each for each in found.outgoing if each.session or each.row] if "outgoing" in ways else []
        incoming = found.incoming if "incoming" in ways else ()
        if not outgoing and not incoming:
            raise NoError(f"there is no link with {site}{_of(client)}")
        if not force and (problem := doubtful(outgoing, incoming, site)):
            raise NoError(problem)
        _forget_links(connection, outgoing)
        for each in incoming:
            forget_queue(connection, each.queue)
    while outgoing:
        with writing(engine) as connection:
            if not send_snapshot.collect_garbage(connection):
                break
    return ForgottenLinks([each.key for each in outgoing], [each.queue for each in incoming])


def doubtful(outgoing: Iterable[Link], incoming: Iterable[StreamEnd], site: SiteId) -> str:
    """Return why the links must not be forgotten; empty if they may. Pure."""
    for link in outgoing:
        if not _may_be_forgotten(link):
            return (
                f"the link of {link.key.client} to {site} is not finished ({link.reason}): {_way_to_end(link, site)}, "
                "or say --force"
            )
    for each in incoming:
        if each.state is not StreamState.ENDED:
            return f"the queue {each.queue.name} is not finished ({each.reason}): wait, or say --force"
    return ""


def _way_to_end(link: Link, site: SiteId) -> str:
    if link.wish is not LinkWish.DRAINING:
        return f"run `lrq link end {site}` and wait"
    return "make the site a peer again and wait" if _is_inactive(link) else "wait"


def _is_inactive(link: Link) -> bool:
    return link.session is not None and link.session.state is SessionState.INACTIVE


def _may_be_forgotten(link: Link) -> bool:
    if link.wish is LinkWish.RUNNING:
        return _is_inactive(link)
    return link.wish is not LinkWish.DRAINING


def _forget_links(connection: Connection, outgoing: Sequence[Link]) -> None:
    if not outgoing:
        return
    wishes: Mapping[LinkWish, list[SessionKey]] = {LinkWish.RELEASED: [], LinkWish.ENDED: []}
    for each in outgoing:
        wishes[_wish_after(each)].append(each.key)
        send_snapshot.forget(connection, each.key.client, each.key.destination)
    forget_sessions(connection, [each.key for each in outgoing])
    for wish, keys in wishes.items():
        if keys:
            set_wish(connection, keys, wish)
    settle_names(connection, {each.key.client for each in outgoing})


def _wish_after(link: Link) -> LinkWish:
    """Return the wish after the link is forgotten: applications may still name a site that is no peer. Pure."""
    is_released = link.wish is LinkWish.RELEASED or (link.row is None and _is_inactive(link))
    return LinkWish.RELEASED if is_released else LinkWish.ENDED


def _of(client: ClientName | None) -> str:
    return f" of client {client}" if client else ""
