"""`lrq park`."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from lrq.cli.command_group import command_group
from lrq.cli.options import Config, Database, Json, OfClient, OfSource, Site, Strict, Yes

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Engine

    from lrq.cli.place import OpenSite
    from queues.receive.parked import ParkedTransaction

app = command_group("List, show, retry or discard source transactions that a listener refused, or park one now.")

Ids = Annotated[list[int] | None, typer.Argument(metavar="ID", help="Ids from the first column of `lrq park list`.")]
All = Annotated[bool, typer.Option("--all", metavar="", help="All parked transactions.")]
Client = Annotated[str | None, typer.Option("--client", metavar="NAME", help="Only transactions of this client.")]
Shard = Annotated[int | None, typer.Option("--shard", metavar="N", min=0, help="The shard; needed if several block.")]


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
    """List parked transactions, oldest first, and the queues that an entry blocks, with the listener's errors."""
    from lrq.cli.output import console, emit
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.views.blocked import blocked_facts, blocked_view
    from lrq.cli.views.parked import parked_facts, parked_view
    from queues.receive.blocked import blocked
    from queues.receive.parked import parked

    with opened_to_read(config, database, site) as here:
        _check_client(here, client, strict=strict)
        found = parked(here.engine, client=client, limit=limit)
        waiting = blocked(here.engine, client=client)
    if as_json:
        facts = {"parked": [parked_facts(each) for each in found], "blocked": [blocked_facts(each) for each in waiting]}
        emit({"site": here.site, **facts})
        return
    console().print(parked_view(found))
    if waiting:
        console().print(blocked_view(waiting))


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
    """Show one parked transaction with its traceback and its entries.

    With --json, payloads are complete and in base64.
    """
    from lrq.cli.output import console, emit
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.views.parked import content_facts, contents_view, parked_facts
    from queues.receive.parked import parked_contents, parked_one, parked_trace

    size = 2**30 if full or as_json else 128
    with opened_to_read(config, database, site) as here:
        found = parked_one(here.engine, parked_id)
        rows = parked_contents(here.engine, parked_id, limit=limit, payload_bytes=size)
        trace = parked_trace(here.engine, parked_id)
    if as_json:
        entries = [content_facts(row) for row in rows]
        emit({"site": here.site, "parked": parked_facts(found) | {"trace": trace}, "entries": entries})
    else:
        console().print(contents_view(found, rows, trace, preview_bytes=size))


@app.command("blocked")
def blocked_(
    client: OfClient,
    source: OfSource,
    shard: Shard = None,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Show the failure that blocks a receive queue, with its traceback."""
    from lrq.cli.output import console, emit
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.views.blocked import blocked_facts, blocked_one_view
    from queues.names import client_name, site_id
    from queues.receive.blocked import blocked_one

    with opened_to_read(config, database, site) as here:
        found = blocked_one(here.engine, client_name(client), site_id(source), shard)
    if as_json:
        emit({"site": here.site, "blocked": blocked_facts(found) | {"trace": found.failure.trace}})
    else:
        console().print(blocked_one_view(found))


@app.command("now")
def now(
    client: OfClient,
    source: OfSource,
    shard: Shard = None,
    yes: Yes = False,
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, max=3600, help="Seconds to wait for the present call of the listener.")
    ] = 10,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Park the source transaction that blocks a receive queue, although its subscription does not park.

    Later entries are then applied without it. `lrq park retry` tries it again.
    """
    from lr_client.subscriber.park_now import park_now
    from lrq.cli.output import emit
    from lrq.cli.person import person
    from lrq.cli.place import opened
    from queues.names import client_name, site_id
    from queues.receive.blocked import blocked_one

    of, sender = client_name(client), site_id(source)
    with opened(config, database, site) as here:
        found = blocked_one(here.engine, of, sender, shard)
        seq = None if yes else found.failure.seq
        if not yes:
            question = f"Park the entry at {seq} of {found.name}, so that later entries overtake it?"
            typer.confirm(question, abort=True, err=True)
        done = park_now(here.engine, of, sender, shard=found.shard, seq=seq, person=person(), seconds=timeout)
    if as_json:
        emit({"site": here.site, "sequence": done.sequence, "entries": done.entries, "queue": done.queue})
    else:
        typer.echo(f"{done.words()}: the subscriber goes on with later entries")


@app.command("retry")
def retry(
    ids: Ids = None,
    for_all: All = False,
    client: Client = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait for the outcome.")] = 30.0,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Have parked transactions tried again, wait for the outcome, and tell it; refused ones stay parked.

    The subscriber tries them ahead of its queue. A retry may put an older value over a newer one. So look at
    `lrq park show`, and discard a transaction whose items have newer entries. Without a working subscriber the command
    does not wait. Exit code 3: a transaction was refused again, or still waits.
    """
    from lrq.cli.exit_codes import Exit
    from lrq.cli.output import emit
    from lrq.cli.person import person
    from lrq.cli.place import opened
    from lrq.cli.waits.retry import retried
    from queues.receive.parked import retry_parked

    with opened(config, database, site) as here:
        _check_client(here, client, strict=strict)
        chosen = _chosen(here.engine, ids, client, for_all=for_all)
        _each(chosen, lambda parked_id: retry_parked(here.engine, parked_id, person=person()))
        done = retried(here.engine, chosen, timeout)
    if as_json:
        emit({"planned": chosen} | done.as_json())
    else:
        for line in done.lines() or ["nothing is parked"]:
            typer.echo(line)
    raise typer.Exit(Exit.NO if done.refused or done.waiting else Exit.WELL)


@app.command("discard")
def discard(
    ids: Ids = None,
    for_all: All = False,
    client: Client = None,
    yes: Yes = False,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Delete parked transactions for good."""
    from lrq.cli.output import emit
    from lrq.cli.person import person
    from lrq.cli.place import opened
    from lrq.cli.words import plural
    from queues.receive.parked import discard_parked

    with opened(config, database, site) as here:
        _check_client(here, client, strict=strict)
        chosen = _chosen(here.engine, ids, client, for_all=for_all)
        if chosen and not yes:
            typer.confirm(f"Delete {plural(len(chosen), 'parked transaction')} for good?", abort=True, err=True)
        gone = _each(chosen, lambda parked_id: discard_parked(here.engine, parked_id, person=person()))
    if as_json:
        emit({"discarded": gone})
    else:
        typer.echo(f"{plural(len(gone), 'parked transaction')} discarded")


def _each(chosen: list[int], act: "Callable[[int], None]") -> list[int]:
    """Call *act* with each id, and return those that were still parked: others work on the same list meanwhile."""
    from queues.errors import UsageError

    found = []
    for parked_id in chosen:
        with suppress(UsageError):
            act(parked_id)
            found.append(parked_id)
    return found


def _check_client(here: "OpenSite", client: str | None, *, strict: bool) -> None:
    from lrq.cli.known_names import check_names

    check_names(here, clients=[] if client is None else [client], strict=strict)


def _chosen(engine: "Engine", ids: list[int] | None, client: str | None, *, for_all: bool) -> list[int]:
    from queues.receive.parked import parked, parked_one

    if bool(ids) is for_all:
        raise typer.BadParameter("name parked transactions by their ids, or say --all")
    if client is not None and ids:
        raise typer.BadParameter("--client goes with --all")
    if ids:
        # An id may also be that of a later entry of a transaction.
        return list(dict.fromkeys(parked_one(engine, each).id for each in ids))
    found: list[ParkedTransaction] = parked(engine, client=client, limit=1_000_000)
    return [each.id for each in found]
