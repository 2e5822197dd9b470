"""`lrq replay`."""

from typing import Annotated

import typer

from lrq.cli.command_group import command_group
from lrq.cli.options import Config, Database, Json, OfClient, OfSource, Site, Yes

app = command_group("Have applied entries come again, after a listener was mended.")


@app.command("order")
def order(
    client: OfClient,
    source: OfSource,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="NUMBER", help="The first entry that comes again; also BRANCH@NUMBER."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Entries committed since TIME, such as 2026-07-01T12:00Z."),
    ] = None,
    without_undo: Annotated[
        bool,
        typer.Option(
            "--without-undo", metavar="", help="Apply the entries over the present rows; do not call on_rollback."
        ),
    ] = False,
    yes: Yes = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait for the answer of SOURCE.")
    ] = 30.0,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Have SOURCE send entries again that this site has applied, and the listener apply them again.

    Run this at the site that has applied them. The listener first undoes the entries by its on_rollback. SOURCE
    refuses the order if it holds the entries no more; nothing changes then. Exit code 3: the order was refused, or
    SOURCE has not answered in time. In the latter case the order stands.
    """
    from discovery.replay_status import ReplayStatus
    from lr_client.replays import ReplayState, place_replay, replay_moment, replay_wish, wait_replay
    from lrq.cli.exit_codes import NoError
    from lrq.cli.output import emit
    from lrq.cli.person import person
    from lrq.cli.place import opened

    if (start is None) is (since is None):
        raise typer.BadParameter("say either --from or --since")
    moment = None if since is None else replay_moment(since)
    wish = replay_wish(start, moment, undo=not without_undo)
    with opened(config, database, site) as here:
        if not yes:
            what = f"entries from {start} on" if start is not None else f"entries since {since}"
            typer.confirm(f"Apply {what} of {client} from {source} again?", abort=True, err=True)
        made = place_replay(here.engine, client, source, wish, person=person())
        done = wait_replay(here.engine, made, timeout)
    if as_json:
        emit({"site": here.site} | ReplayStatus.of(done).as_json())
    if done.state is not ReplayState.BEGUN:
        raise NoError(f"the replay of {done.name} was {done.state.value}: {done.outcome}")
    if not as_json:
        typer.echo(f"{done.name}: {done.outcome}")


@app.command("list")
def list_(config: Config = None, database: Database = None, site: Site = None, as_json: Json = False) -> None:
    """Show the last order of each receive queue, with its outcome."""
    from discovery.replay_status import ReplayStatus
    from lr_client.replays import replay_orders
    from lrq.cli.output import console, emit
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.views.replays import replays_table
    from queues.clock import now_us

    with opened_to_read(config, database, site) as here:
        found = [ReplayStatus.of(each) for each in replay_orders(here.engine)]
    if as_json:
        emit({"site": here.site, "replays": [each.as_json() for each in found]})
    elif found:
        console().print(replays_table(found, now_us()))
    else:
        typer.echo("no replay was ordered here")


@app.command("cancel")
def cancel(
    client: OfClient,
    source: OfSource,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Withdraw an order that SOURCE has not answered; nothing has changed until then."""
    from discovery.replay_status import ReplayStatus
    from lr_client.replays import cancel_replay
    from lrq.cli.output import emit
    from lrq.cli.person import person
    from lrq.cli.place import opened

    with opened(config, database, site) as here:
        done = cancel_replay(here.engine, client, source, person=person())
    if as_json:
        emit({"site": here.site} | ReplayStatus.of(done).as_json())
    else:
        typer.echo(f"{done.name}: the order is withdrawn")
