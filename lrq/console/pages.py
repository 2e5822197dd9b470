"""The pages of the console; each reads a bounded number of rows."""

import asyncio
from functools import partial
from typing import Final
from urllib.parse import urlencode

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response

from discovery.receive_status import FailureStatus, ReceiveQueueStatus
from discovery.snapshot_status import SnapshotStatus
from lrq.console.actions import MOST, matching
from lrq.console.console import Console
from lrq.console.entry_search import Sought, moment_us, search
from lrq.console.payloads import MOST_BYTES, readings
from lrq.console.plot import picture, plot
from lrq.console.samples import recent
from lrq.console.watch import SiteWatch, WatchedSite
from queues import names, send_snapshot
from queues.browse.api import Page, QueueSummary, Wanted, browse, payload_at, summaries
from queues.clock import now_us
from queues.database.actions import StoredAction
from queues.database.actions import newest as newest_actions
from queues.database.transactions import reading
from queues.entry_headers import parse
from queues.errors import CorruptFrameError, LrqError, UsageError
from queues.names import client_name, site_id
from queues.positions import is_number
from queues.receive.blocked import blocked_one
from queues.receive.parked import ParkedTransaction, parked_contents, parked_one, parked_trace
from queues.receive.received_rows import ReceivedRow
from queues.send_snapshot.stored_parts import PartRows, parts_of
from queues.words import in_words

#: Lines of one page.
_LINES: Final = 50
#: The entries of a parked transaction on its page, and the parts of a snapshot.
_CONTENTS: Final = 20
_PARTS: Final = 500
_PREVIEW: Final = 96
#: The stored actions of all sites on one page.
_STORED: Final = 200


async def map_page(console: Console, request: Request) -> Response:
    """Show all sites and links."""
    views, found, cards = console.views(), console.links(), console.cards()
    drawing = picture(views, [card.tone for card in cards], found)
    return console.page(request, "map.html", links=found, drawing=drawing)


async def link_page(console: Console, request: Request) -> Response:
    """Show one session: its state, its lag over the last hour, its changes and its receive queue."""
    asked = request.query_params
    watch = console.watch(asked.get("site", ""))
    client, destination = asked.get("client", ""), asked.get("to", "")
    found = next(
        (
            each
            for each in console.links()
            if (each.source.key, each.session.client, each.session.destination) == (watch.address, client, destination)
        ),
        None,
    )
    if found is None:
        raise UsageError("there is no such link now: choose one on the map")
    past, at_us = watch.past.of(client, destination), now_us()
    drawn = plot(recent(tuple(past.samples), at_us), at_us)
    status = found.source.status
    snapshots = (
        []
        if status is None
        else [each for each in status.snapshots if (each.client, each.destination) == (client, destination)]
    )
    resends = [] if status is None else status.resends
    resend = next((each for each in resends if (each.client, each.destination) == (client, destination)), None)
    return console.page(
        request, "link.html", link=found, plot=drawn, changes=list(reversed(past.changes)), snapshots=snapshots[:5],
        resend=resend,
    )  # fmt: skip


async def entries_page(console: Console, request: Request) -> Response:
    """Show the outstanding entries of a queue, page by page."""
    asked = request.query_params
    watch = console.watch(asked.get("site", ""))
    queue = asked.get("queue", "") or names.SEND_LOG_ENTRIES
    destination = asked.get("to", "")
    wanted = Wanted(
        after=asked.get("after", ""),
        limit=_LINES,
        client=client_name(asked["client"]) if asked.get("client") else None,
        destination=site_id(destination) if destination else None,
        everything=bool(asked.get("all")),
        preview_bytes=_PREVIEW,
    )
    sought = Sought(asked.get("key", ""), moment_us(asked.get("since", "")), moment_us(asked.get("until", "")))
    found, queues = await watch.pages.call(partial(_entries, watch.reading, queue, wanted, sought))
    return console.page(
        request, "entries.html", site=watch.look(), queue=queue, page=found, queues=queues, asked=dict(asked)
    )


def _entries(engine: Engine, queue: str, wanted: Wanted, sought: Sought) -> tuple[Page, list[QueueSummary]]:
    return search(partial(browse, engine, queue), wanted, sought), summaries(engine)


async def entry_page(console: Console, request: Request) -> Response:
    """Show one entry with its payload, if the console shows payloads."""
    asked = request.query_params
    watch = console.watch(asked.get("site", ""))
    queue, position = asked.get("queue", ""), asked.get("at", "")
    if not console.allowed.payloads:
        raise UsageError("the console hides payloads: start it with --show-payloads")
    payload = await watch.pages.call(partial(payload_at, watch.reading, queue, position))
    return console.page(
        request, "entry.html", site=watch.look(), queue=queue, position=position, size=len(payload),
        readings=readings(payload, console.decoders), most=MOST_BYTES,
    )  # fmt: skip


async def snapshots_page(console: Console, request: Request) -> Response:
    """Show the newest snapshots of all sites."""
    return console.page(request, "snapshots.html", views=console.views())


async def snapshot_page(console: Console, request: Request) -> Response:
    """Show one snapshot with its parts."""
    watch = console.watch(request.query_params.get("site", ""))
    sync_id = request.query_params.get("id", "")
    found, parts = await watch.pages.call(partial(_snapshot, watch, sync_id))
    return console.page(request, "snapshot.html", site=watch.look(), snapshot=found, parts=parts, most=_PARTS)


def _snapshot(watch: SiteWatch, sync_id: str) -> tuple[SnapshotStatus, list[PartRows]]:
    from discovery.snapshot_reads import snapshot_status

    with reading(watch.reading) as connection:
        found = send_snapshot.find(connection, sync_id)
        if found is None:
            raise UsageError("there is no such snapshot now: choose one on the page of snapshots")
        return snapshot_status(found), parts_of(connection, found.stored_under, _PARTS) if found.build else []


async def parked_page(console: Console, request: Request) -> Response:
    """Show the parked transactions of one site that match, and the listeners that fail now."""
    asked = request.query_params
    watch = console.watch(asked.get("site") or _site_in_need(console))
    client, source, text = asked.get("client", ""), asked.get("source", ""), asked.get("text", "")
    wanted = partial(matching, watch.reading, client or None, source or None, text, messages=console.allowed.payloads)
    found = await watch.pages.call(wanted)
    start = _number(asked.get("start", "")) or 0
    return console.page(
        request, "parked.html", site=watch.look(), found=found[start : start + _LINES], total=len(found), start=start,
        lines=_LINES, asked=dict(asked), views=console.views(), most=MOST, failing=_failing(watch.look()),
        blocked_query=_blocked_query,
    )  # fmt: skip


def _site_in_need(console: Console) -> str:
    """Return the key of the first site with dead letters or refusals; empty if there is none."""
    return next((view.key for view in console.views() if _has_parked(view) or _failing(view)), "")


def _has_parked(view: WatchedSite) -> bool:
    return any(queue.parked for queue in (view.status.receive_queues if view.status else ()))


def _failing(view: WatchedSite) -> list[tuple[ReceiveQueueStatus, int | None, FailureStatus]]:
    """Return the failures of queues and shards, as last read."""
    status = view.status
    found: list[tuple[ReceiveQueueStatus, int | None, FailureStatus]] = []
    for queue in status.receive_queues if status else ():
        if queue.shards:
            found += [(queue, each.shard, each.failure) for each in queue.shards if each.failure]
        elif queue.failure:
            found.append((queue, None, queue.failure))
    return found


def _blocked_query(site: str, queue: ReceiveQueueStatus, shard: int | None) -> str:
    named = {"site": site, "client": queue.client, "source": queue.source}
    return urlencode(named if shard is None else named | {"shard": shard})


async def blocked_page(console: Console, request: Request) -> Response:
    """Show the failure that blocks one queue, with its traceback."""
    asked = request.query_params
    watch = console.watch(asked.get("site", ""))
    shard = _number(asked.get("shard", ""))
    of, sender = client_name(asked.get("client", "")), site_id(asked.get("source", ""))
    found = await watch.pages.call(partial(blocked_one, watch.reading, of, sender, shard))
    return console.page(request, "blocked.html", site=watch.look(), found=found)


async def parked_one_page(console: Console, request: Request) -> Response:
    """Show one parked transaction with its error and its payloads."""
    asked = request.query_params
    watch = console.watch(asked.get("site", ""))
    parked_id = _number(asked.get("id", ""))
    if parked_id is None:
        raise UsageError("name a parked transaction by its id: choose one on the page of dead letters")
    found, rows, trace = await watch.pages.call(partial(_parked, watch.reading, parked_id, console.allowed.payloads))
    contents = [
        (row, _headers(row.headers), readings(row.payload, console.decoders) if console.allowed.payloads else [])
        for row in rows
    ]
    return console.page(
        request, "parked_one.html", site=watch.look(), found=found, contents=contents, most=_CONTENTS, trace=trace
    )  # fmt: skip


def _parked(engine: Engine, parked_id: int, payloads: bool) -> tuple[ParkedTransaction, list[ReceivedRow], str]:
    size = MOST_BYTES if payloads else 0
    rows = parked_contents(engine, parked_id, limit=_CONTENTS, payload_bytes=size)
    return parked_one(engine, parked_id), rows, parked_trace(engine, parked_id)


def _number(text: str) -> int | None:
    """Return a number of a query; None for another text."""
    return int(text) if is_number(text) else None


def _headers(stored: str | None) -> dict[str, str]:
    try:
        return {} if stored is None else dict(parse(stored))
    except CorruptFrameError:
        return {"damaged headers": stored or ""}


async def actions_page(console: Console, request: Request) -> Response:
    """Show the last actions of this console, and those that the sites have stored."""
    read = await asyncio.gather(*(_stored_actions(watch) for watch in console.watches))
    found = [(watch.look(), *each) for watch, each in zip(console.watches, read, strict=True)]
    stored = [(site, action) for site, actions, _ in found for action in actions]
    silent = [(site, trouble) for site, _, trouble in found if trouble]
    newest = sorted(stored, key=lambda each: each[1].at_us, reverse=True)[:_STORED]
    return console.page(request, "actions.html", log=console.log.listing(), stored=newest, silent=silent)


async def _stored_actions(watch: SiteWatch) -> tuple[list[StoredAction], str]:
    """Return the newest actions of one site, or the reason why the site does not tell them."""
    try:
        return await watch.pages.call(partial(newest_actions, watch.reading, _LINES)), ""
    except (LrqError, SQLAlchemyError) as error:
        return [], in_words(error)
