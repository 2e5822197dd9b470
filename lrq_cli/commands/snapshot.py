"""`lrq snapshot`."""

from typing import TYPE_CHECKING, Annotated

import typer

from lrq_cli.failing import NoError
from lrq_cli.options import Config, Database, Json, Site

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from lrq_cli.following import Follow

app = typer.Typer(help="Ask for full snapshots, and see what became of them.", no_args_is_help=False)

Client = Annotated[
    str | None,
    typer.Option("--client", metavar="NAME", help="The application stream; may be left out where there is just one."),
]
Timeout = Annotated[float, typer.Option("--timeout", "-t", metavar="SECONDS", min=0, help="How long to watch at most.")]


@app.callback(invoke_without_command=True)
def _snapshot(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("request")
def request(
    destination: Annotated[str | None, typer.Argument(help="The site that is to get one.")] = None,
    for_all: Annotated[bool, typer.Option("--all", metavar="", help="Every site that the server knows.")] = False,
    client: Client = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Kept with it, for whoever looks later.")
    ] = "asked for by `lrq snapshot`",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", metavar="", help="Show how it gets on until it is applied.")
    ] = False,
    timeout: Timeout = 3600.0,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Ask for a full snapshot for one site, or for all; of several requests for a site the newest counts.

    Exit code 3 with --watch means that it was not applied: failed, cancelled, or not in time.
    """
    from lr_client.snapshots import request_global_snapshot_sync, request_snapshot_sync
    from lrq_cli.following import Follow, request_facts
    from lrq_cli.output import emit
    from lrq_cli.place import opened
    from queues.transactions import writing

    if (destination is None) is not for_all:
        raise typer.BadParameter("name one site, or say --all")
    with opened(config, database, site) as here:
        name = client or _only_client(here.engine)
        with writing(here.engine) as connection:
            if destination is None:
                sync_id = request_global_snapshot_sync(connection, name, reason=reason)
            else:
                sync_id = request_snapshot_sync(connection, name, destination, reason=reason)
        if watch:
            _watch(Follow(here.engine, sync_id), timeout, as_json=as_json)
        elif as_json:
            emit(request_facts(here.engine, sync_id))
        else:
            typer.echo(sync_id)


@app.command("list")
def list_(
    client: Client = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="The newest so many.")] = 20,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """List requests for snapshots, newest first, and who provides them."""
    from lrq_cli.following import listing, listing_view, provider_facts
    from lrq_cli.output import console, emit
    from lrq_cli.place import opened

    with opened(config, database, site) as here:
        found = listing(here.engine, client, limit)
        providers = provider_facts(here.engine)
    if as_json:
        emit({"site": here.site, "snapshots": found, "providers": providers})
    else:
        console().print(listing_view(found, providers))


@app.command("watch")
def watch(
    sync_id: Annotated[str, typer.Argument(help="What `lrq snapshot request` printed.")],
    timeout: Timeout = 3600.0,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Show how one snapshot gets on until it is applied."""
    from lrq_cli.following import Follow
    from lrq_cli.place import opened

    with opened(config, database, site) as here:
        _watch(Follow(here.engine, sync_id), timeout, as_json=as_json)


@app.command("cancel")
def cancel(
    destination: Annotated[str | None, typer.Argument(help="The site that is to get none.")] = None,
    for_all: Annotated[bool, typer.Option("--all", metavar="", help="Every site.")] = False,
    client: Client = None,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Cancel what is unfinished; a session that cannot go on without a snapshot asks for another one."""
    from lrq_cli.output import emit
    from lrq_cli.place import opened
    from lrq_cli.words import plural
    from queues import snapshots
    from queues.names import client_name, site_id
    from queues.transactions import writing

    if (destination is None) is not for_all:
        raise typer.BadParameter("name one site, or say --all")
    with opened(config, database, site) as here:
        name = client_name(client or _only_client(here.engine))
        wanted = None if destination is None else site_id(destination)
        with writing(here.engine) as connection:
            count = snapshots.cancel(connection, name, wanted, reason="cancelled by `lrq snapshot`")
    if as_json:
        emit({"site": here.site, "client": name, "destination": wanted, "cancelled": count})
    else:
        typer.echo(f"{plural(count, 'snapshot')} cancelled")


def _watch(follow: "Follow", timeout: float, *, as_json: bool) -> None:
    from lrq_cli.output import emit
    from lrq_cli.snapshot_screen import show_until_done

    outcome = show_until_done(follow, timeout, silent=as_json)
    if as_json:
        emit(outcome.facts())
    if not outcome.applied:
        raise NoError(outcome.words())


def _only_client(engine: "Engine") -> str:
    """Return the one client of the site; raises `BadParameter` that names them where there is not just one."""
    from lrq_cli.following import known_clients

    known = known_clients(engine)
    if len(known) != 1:
        named = f"one of {', '.join(known)}" if known else "none has transmitted or offered snapshots here yet"
        raise typer.BadParameter(f"say which --client: {named}")
    return known[0]
