"""`lrq park`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from lrq.cli.options import Config, Database, Json, Site, Strict

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from lrq.cli.place import OpenSite
    from queues.receive.parked import ParkedTransaction

app = typer.Typer(
    help="List, show, retry or discard source transactions that a listener refused.", no_args_is_help=False
)

Ids = Annotated[list[int] | None, typer.Argument(help="Ids from the first column of `lrq park list`.")]
All = Annotated[bool, typer.Option("--all", metavar="", help="All parked transactions.")]
Client = Annotated[str | None, typer.Option("--client", metavar="NAME", help="Only transactions of this client.")]


@app.callback(invoke_without_command=True)
def _park(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_(
    client: Client = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")] = 100,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """List parked transactions, oldest first, with the listener's errors."""
    from lrq.cli.output import console, emit
    from lrq.cli.parked_view import parked_facts, parked_view
    from lrq.cli.place import opened
    from queues.receive.parked import parked

    with opened(config, database, site) as here:
        _check_client(here, client, strict=strict)
        found = parked(here.engine, client=client, limit=limit)
    if as_json:
        emit({"site": here.site, "parked": [parked_facts(each) for each in found]})
    else:
        console().print(parked_view(found))


@app.command("show")
def show(
    parked_id: Annotated[int, typer.Argument(metavar="ID", help="The id from the first column of `lrq park list`.")],
    full: Annotated[bool, typer.Option("--full", metavar="", help="Show payloads in full.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many entries at most.")] = 20,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Show one parked transaction with its entries; with --json, payloads are complete and in base64."""
    from lrq.cli.output import console, emit
    from lrq.cli.parked_view import content_facts, contents_view, parked_facts
    from lrq.cli.place import opened
    from queues.receive.parked import parked_contents, parked_one

    size = 2**30 if full or as_json else 128
    with opened(config, database, site) as here:
        found = parked_one(here.engine, parked_id)
        rows = parked_contents(here.engine, parked_id, limit=limit, payload_bytes=size)
    if as_json:
        entries = [content_facts(row) for row in rows]
        emit({"site": here.site, "parked": parked_facts(found), "entries": entries})
    else:
        console().print(contents_view(found, rows, preview_bytes=size))


@app.command("retry")
def retry(
    ids: Ids = None,
    for_all: All = False,
    client: Client = None,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Plan another try of parked transactions: the subscriber makes it ahead of its queue; refused ones stay parked."""
    from lrq.cli.place import opened
    from queues.receive.parked import retry_parked

    with opened(config, database, site) as here:
        _check_client(here, client, strict=strict)
        chosen = _chosen(here.engine, ids, client, for_all=for_all)
        _each(here.engine, chosen, retry_parked, "planned", ": the subscriber tries again", as_json=as_json)


@app.command("discard")
def discard(
    ids: Ids = None,
    for_all: All = False,
    client: Client = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask for confirmation.")] = False,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Delete parked transactions for good."""
    from lrq.cli.place import opened
    from lrq.cli.words import plural
    from queues.receive.parked import discard_parked

    with opened(config, database, site) as here:
        _check_client(here, client, strict=strict)
        chosen = _chosen(here.engine, ids, client, for_all=for_all)
        if chosen and not yes:
            typer.confirm(f"Delete {plural(len(chosen), 'parked transaction')} for good?", abort=True, err=True)
        _each(here.engine, chosen, discard_parked, "discarded", as_json=as_json)


def _check_client(here: "OpenSite", client: str | None, *, strict: bool) -> None:
    from lrq.cli.known_names import check_names

    check_names(here, clients=[] if client is None else [client], strict=strict)


def _chosen(engine: "Engine", ids: list[int] | None, client: str | None, *, for_all: bool) -> list[int]:
    from queues.receive.parked import parked

    if bool(ids) is for_all:
        raise typer.BadParameter("name parked transactions by their ids, or say --all")
    if client is not None and ids:
        raise typer.BadParameter("--client goes with --all")
    if ids:
        return ids
    found: list[ParkedTransaction] = parked(engine, client=client, limit=1_000_000)
    return [each.id for each in found]


def _each(
    engine: "Engine",
    chosen: list[int],
    do: "Callable[[Engine, int], None]",
    done: str,
    then: str = "",
    *,
    as_json: bool,
) -> None:
    from lrq.cli.output import emit
    from lrq.cli.words import plural

    for parked_id in chosen:
        do(engine, parked_id)
    if as_json:
        emit({done: chosen})
    else:
        typer.echo(f"{plural(len(chosen), 'parked transaction')} {done}{then}")
