"""`lrq snapshot`."""

from typing import TYPE_CHECKING, Annotated

import typer

from lrq.cli.command_group import command_group
from lrq.cli.exit_codes import NoError
from lrq.cli.options import Config, Database, Json, Site, Strict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine

    from lrq.cli.snapshot_requests import Follow
    from queues.names import SiteId

app = command_group("Request full snapshots, and follow their progress.")

Client = Annotated[
    str | None,
    typer.Option("--client", metavar="NAME", help="The application stream; optional if the site has only one."),
]
Timeout = Annotated[float, typer.Option("--timeout", "-t", metavar="SECONDS", min=0, help="How long to watch at most.")]


@app.command("request")
def request(
    destination: Annotated[str | None, typer.Argument(metavar="SITE", help="The site to send a snapshot to.")] = None,
    for_all: Annotated[bool, typer.Option("--all", metavar="", help="Every site that the server knows.")] = False,
    client: Client = None,
    reason: Annotated[
        str, typer.Option("--reason", help="The reason to record with the request.")
    ] = "asked for by `lrq snapshot`",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", metavar="", help="Show the progress until the snapshot is applied.")
    ] = False,
    timeout: Timeout = 3600.0,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Request a full snapshot for one site or for all; of several requests for a site, the newest counts.

    A warning tells that no provider of the client runs; the request waits for one.
    Exit code 3 with --watch means that the snapshot failed, was cancelled, or was not applied in time.
    """
    from lr_client.snapshot.requests import request_global_snapshot_sync, request_snapshot_sync
    from lrq.cli.known_names import check_names
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from lrq.cli.snapshot_requests import Follow, no_provider, request_status
    from queues.database.transactions import writing

    if (destination is None) is not for_all:
        raise typer.BadParameter("name one site, or say --all")
    with opened(config, database, site) as here:
        name = client or _only_client(here.engine)
        check_names(here, sites=[destination] if destination else [], clients=[name], strict=strict)
        with writing(here.engine) as connection:
            if destination is None:
                sync_id = request_global_snapshot_sync(connection, name, reason=reason)
            else:
                sync_id = request_snapshot_sync(connection, name, destination, reason=reason)
        if (words := no_provider(here.engine, name)) is not None:
            typer.echo(f"lrq: warning: {words}", err=True)
        if watch:
            _watch(Follow(here.engine, sync_id), timeout, as_json=as_json)
        elif as_json:
            found = request_status(here.engine, sync_id)
            emit({"sync_id": sync_id} if found is None else found.as_json())
        else:
            typer.echo(sync_id)


@app.command("list")
def list_(
    client: Client = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="How many at most.")] = 20,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """List requests for snapshots, newest first, and the snapshot providers."""
    from lrq.cli.known_names import check_names
    from lrq.cli.output import console, emit
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.snapshot_requests import listing, listing_view, provider_json, provider_listing

    with opened_to_read(config, database, site) as here:
        check_names(here, clients=[client] if client else [], strict=strict)
        found = listing(here.engine, client, limit)
        providers = provider_listing(here.engine)
    if as_json:
        snapshots = [each.as_json() for each in found]
        emit({"site": here.site, "snapshots": snapshots, "providers": [provider_json(each) for each in providers]})
    else:
        console().print(listing_view(found, providers))


@app.command("watch")
def watch(
    sync_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `lrq snapshot request` printed.")],
    timeout: Timeout = 3600.0,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Show the progress of one snapshot until it is applied."""
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.snapshot_requests import Follow

    with opened_to_read(config, database, site) as here:
        _watch(Follow(here.engine, sync_id), timeout, as_json=as_json)


@app.command("cancel")
def cancel(
    destination: Annotated[
        str | None, typer.Argument(metavar="SITE", help="The site whose requests to cancel.")
    ] = None,
    for_all: Annotated[bool, typer.Option("--all", metavar="", help="Every site.")] = False,
    client: Client = None,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Cancel unfinished requests; a session that cannot continue without a snapshot requests another one."""
    from lrq.cli.known_names import check_names
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from lrq.cli.words import plural
    from queues import send_snapshot
    from queues.database.transactions import writing
    from queues.names import client_name, site_id
    from queues.send_log.replica_members import read_groups

    if (destination is None) is not for_all:
        raise typer.BadParameter("name one site, or say --all")
    with opened(config, database, site) as here:
        wanted = None if destination is None else site_id(destination)
        if wanted is not None:
            _refuse_id(here.engine, wanted)
        name = client_name(client or _client_to_cancel(here.engine, wanted))
        check_names(here, sites=[destination] if destination else [], clients=[name], strict=strict)
        with writing(here.engine) as connection:
            # The server divides a request for a group of replicas among the members.
            members = () if wanted is None else read_groups(connection).get(wanted, ())
            reason = "cancelled by `lrq snapshot`"
            count = sum(send_snapshot.cancel(connection, name, each, reason=reason) for each in (wanted, *members))
    if as_json:
        emit({"site": here.site, "client": name, "destination": wanted, "cancelled": count})
    else:
        typer.echo(f"{plural(count, 'snapshot')} cancelled")


def _watch(follow: "Follow", timeout: float, *, as_json: bool) -> None:
    from lrq.cli.output import emit
    from lrq.cli.views.snapshot_screen import show_until_done

    outcome = show_until_done(follow, timeout, silent=as_json)
    if as_json:
        emit(outcome.as_json())
    if not outcome.applied:
        raise NoError(outcome.words())


def _refuse_id(engine: "Engine", destination: "SiteId") -> None:
    """Raise `BadParameter` if the name of the site is the id of a snapshot, as `lrq snapshot list` prints it."""
    from queues import send_snapshot
    from queues.database.transactions import reading

    with reading(engine) as connection:
        named = send_snapshot.find(connection, destination)
    if named is not None:
        raise typer.BadParameter(f"{destination} is the id of a snapshot for {named.destination}: name the site")


def _client_to_cancel(engine: "Engine", destination: "SiteId | None") -> str:
    """Return the only client with requests to cancel; without such requests, the site's only client."""
    from queues import send_snapshot
    from queues.database.transactions import reading

    with reading(engine) as connection:
        asked = send_snapshot.clients_to_cancel(connection, destination)
    return _only(asked) if asked else _only_client(engine)


def _only_client(engine: "Engine") -> str:
    """Return the site's only client; raises `BadParameter` with the known clients if there is not exactly one."""
    from lrq.cli.snapshot_requests import known_clients

    return _only(known_clients(engine))


def _only(known: "Sequence[str]") -> str:
    if len(known) != 1:
        named = f"one of {', '.join(known)}" if known else "none has transmitted or offered snapshots here yet"
        raise typer.BadParameter(f"say which --client: {named}")
    return known[0]
