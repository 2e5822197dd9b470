"""`lrq resend`."""

from typing import TYPE_CHECKING, Annotated

import typer

from lrq.cli.command_group import command_group
from lrq.cli.options import Config, Database, Json, Site, Yes

if TYPE_CHECKING:
    from queues.send_log.resends import ResendOrder

app = command_group("Send a range of entries to a site once more, as new entries.")

OfClient = Annotated[str, typer.Argument(metavar="CLIENT", help="The client of the entries.")]
To = Annotated[str, typer.Argument(metavar="SITE", help="The site that gets the entries again.")]


@app.command("begin")
def begin(
    client: OfClient,
    destination: To,
    start: Annotated[
        str | None, typer.Option("--from", metavar="NUMBER", help="The first entry; also BRANCH@NUMBER.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="NUMBER", help="The last entry; also BRANCH@NUMBER.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Entries committed since TIME, such as 2026-07-01T09:00Z."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="The end of that time, such as 2026-07-01T10:00Z.")
    ] = None,
    yes: Yes = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Send the entries of a range to SITE once more, as new entries with new numbers.

    Run this at the source. The listener at SITE applies the new entries after all earlier ones, over newer values, and
    undoes nothing. So only a listener whose entries stand alone may get them. Entries with an item key are left out.
    """
    from lr_client.replays import entry_position, replay_moment
    from lr_client.resend_ranges import check_order
    from lr_client.resends import resend_entries
    from lrq.cli.person import person
    from lrq.cli.place import opened
    from queues.names import client_name, site_id
    from queues.send_log.port import SessionKey

    if (
        (start is None) is not (end is None)
        or (since is None) is not (until is None)
        or (start is None) is (since is None)
    ):
        raise typer.BadParameter("say either --from and --to, or --since and --until")
    times = (replay_moment(since), replay_moment(until)) if since is not None and until is not None else (None, None)
    numbers = (entry_position(start), entry_position(end)) if start is not None and end is not None else (None, None)
    with opened(config, database, site) as here:
        if not yes:
            # A question about an order that cannot begin would waste the answer.
            check_order(here.engine, SessionKey(client_name(client), site_id(destination)), numbers, times)
            what = f"entries {start} to {end}" if start is not None else f"entries from {since} until {until}"
            question = f"Send {what} of {client} to {destination} again, although newer ones are applied there?"
            typer.confirm(question, abort=True, err=True)
        (first, last), (begin_time, end_time) = numbers, times
        done = resend_entries(
            here.engine, client, destination, start=first, end=last, since=begin_time, until=end_time, person=person()
        )
        _tell(done, here.site, as_json=as_json)


@app.command("continue")
def continue_(
    client: OfClient,
    destination: To,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Carry on a resend that was interrupted: entries that were sent again already do not come once more."""
    from lr_client.resends import continue_resend
    from lrq.cli.place import opened

    with opened(config, database, site) as here:
        _tell(continue_resend(here.engine, client, destination), here.site, as_json=as_json)


@app.command("cancel")
def cancel(
    client: OfClient,
    destination: To,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """End a resend without the rest of its entries; a command that still works on it stops with an error."""
    from lr_client.resends import cancel_resend
    from lrq.cli.person import person
    from lrq.cli.place import opened

    with opened(config, database, site) as here:
        _tell(cancel_resend(here.engine, client, destination, person=person()), here.site, as_json=as_json)


@app.command("list")
def list_(config: Config = None, database: Database = None, site: Site = None, as_json: Json = False) -> None:
    """Show the last resend of each session, with its result."""
    from discovery.resend_status import ResendStatus
    from lr_client.resends import resend_orders
    from lrq.cli.output import console, emit
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.views.resends import resends_table
    from queues.clock import now_us

    with opened_to_read(config, database, site) as here:
        found = [ResendStatus.of(each) for each in resend_orders(here.engine)]
    if as_json:
        emit({"site": here.site, "resends": [each.as_json() for each in found]})
    elif found:
        console().print(resends_table(found, now_us()))
    else:
        typer.echo("no entries were sent again from here")


def _tell(done: "ResendOrder", site: str, *, as_json: bool) -> None:
    from discovery.resend_status import ResendStatus
    from lrq.cli.output import emit

    if as_json:
        emit({"site": site} | ResendStatus.of(done).as_json())
    else:
        typer.echo(f"{done.name}, {done.words}")
