"""`lrq browse`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lrq.cli.options import Config, Database, Json, Site, Strict

if TYPE_CHECKING:
    from lrq.cli.place import OpenSite
    from queues.browse.api import Wanted

_FILTERS = "Which entries"


def browse(
    queue: Annotated[
        str | None,
        typer.Argument(
            metavar="QUEUE", help="The queue; by default, all queues are listed and LRQ_Send_LogEntries is shown."
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", metavar="N", min=1, max=10_000, help="Show at most N entries.", rich_help_panel=_FILTERS
        ),
    ] = 20,
    after: Annotated[
        str, typer.Option("--after", metavar="POSITION", help="Continue after this entry.", rich_help_panel=_FILTERS)
    ] = "",
    destination: Annotated[
        str | None,
        typer.Option("--destination", metavar="SITE", help="Only entries for this site.", rich_help_panel=_FILTERS),
    ] = None,
    client: Annotated[
        str | None,
        typer.Option("--client", metavar="NAME", help="Only entries of this client.", rich_help_panel=_FILTERS),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", metavar="", help="Include entries that every site has acknowledged.", rich_help_panel=_FILTERS
        ),
    ] = False,
    full: Annotated[bool, typer.Option("--full", metavar="", help="Show payloads and tags in full.")] = False,
    raw: Annotated[
        str | None, typer.Option("--raw", metavar="POSITION", help="Write one payload to stdout, byte for byte.")
    ] = None,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Show the outstanding entries of a queue with their tags, and change nothing.

    One call reads one page, however long the queue is; the output names the start of the next page. With --json,
    payloads are complete and in base64.
    """
    from lrq.cli.known_names import check_names
    from lrq.cli.reader_place import opened_to_read
    from queues import names
    from queues.browse.api import Wanted, payload_at

    shown = queue or names.SEND_LOG_ENTRIES
    with opened_to_read(config, database, site) as here:
        if raw is not None:
            sys.stdout.buffer.write(payload_at(here.engine, shown, raw))
            return
        asked = [destination] if destination else [], [client] if client else []
        check_names(here, sites=asked[0], clients=asked[1], strict=strict)
        wanted = Wanted(
            after=after,
            limit=limit,
            client=None if client is None else names.client_name(client),
            destination=None if destination is None else names.site_id(destination),
            everything=everything,
            preview_bytes=Wanted().page_bytes if full or as_json else Wanted().preview_bytes,
        )
        _show(here, shown, wanted, full=full, overview=queue is None, as_json=as_json)


def _show(here: "OpenSite", queue: str, wanted: "Wanted", *, full: bool, overview: bool, as_json: bool) -> None:
    from lrq.cli.output import console, emit
    from lrq.cli.views.browse import entries_view, page_facts, summaries_view, summary_facts
    from queues.browse.api import browse, summaries

    found = summaries(here.engine) if overview else []
    page = browse(here.engine, queue, wanted)
    if as_json:
        facts = {"site": here.site, "queue": queue, **page_facts(page)}
        emit({"queues": [summary_facts(each) for each in found], **facts} if overview else facts)
        return
    out = console()
    if overview:
        out.print(summaries_view(found))
        out.print()
    out.print(entries_view(queue, page, full=full))
