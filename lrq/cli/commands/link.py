"""`lrq link`."""

from typing import Annotated

import typer

from lrq.cli.command_group import command_group
from lrq.cli.options import Config, Database, Json, Site, Strict

app = command_group("List links with other sites; end, begin or forget them.")

Other = Annotated[str, typer.Argument(metavar="SITE", help="The other site of the link.")]
Client = Annotated[str | None, typer.Option("--client", metavar="NAME", help="Only the link of this client.")]


@app.command("list")
def list_(config: Config = None, database: Database = None, site: Site = None, as_json: Json = False) -> None:
    """Show each link with its state and the reason.

    A link is the replication of one client to one site. For received clients the end of each stream is shown.
    """
    from lrq.cli.links import list_links
    from lrq.cli.output import console, emit
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.views.links import links_view

    with opened_to_read(config, database, site) as here:
        found = list_links(here.engine)
    if as_json:
        emit({"site": here.site} | found.as_json())
    else:
        console().print(links_view(found))


@app.command("end")
def end(
    destination: Other,
    client: Client = None,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Refuse new entries for SITE, and send all earlier ones and the end of the stream.

    A call that names SITE among its destinations is refused as a whole. `lrq link list` shows the progress.
    """
    from lrq.cli.known_names import check_names
    from lrq.cli.link_actions import end as end_links
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from lrq.cli.words import plural
    from queues.names import client_name, site_id

    there, of = site_id(destination), None if client is None else client_name(client)
    with opened(config, database, site) as here:
        check_names(here, sites=[there], clients=[of] if of else [], strict=strict)
        ended = end_links(here.engine, there, of)
    if as_json:
        emit({"site": here.site, "ended": [key._asdict() for key in ended]})
    elif ended:
        typer.echo(f"{plural(len(ended), 'link')} to {there} will end: new entries are refused, earlier ones are sent")
    else:
        typer.echo(f"every link to {there} has been ended before")


@app.command("begin")
def begin(
    destination: Other,
    client: Client = None,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Let links begin again that were ended or forgotten.

    A session that was not forgotten goes on where it ended. A forgotten one begins like the session of a new site.
    """
    from lrq.cli.link_actions import begin as begin_links
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from lrq.cli.words import plural
    from queues.names import client_name, site_id

    there, of = site_id(destination), None if client is None else client_name(client)
    with opened(config, database, site) as here:
        begun = begin_links(here.engine, there, of)
    if as_json:
        emit({"site": here.site, "begun": [key._asdict() for key in begun]})
    else:
        typer.echo(
            f"{plural(len(begun), 'link')} to {there} begins again"
            if len(begun) == 1
            else f"{plural(len(begun), 'link')} to {there} begin again"
        )


@app.command("forget")
def forget(
    destination: Other,
    client: Client = None,
    outgoing: Annotated[
        bool, typer.Option("--outgoing", metavar="", help="Only links to SITE, no receive queues of SITE.")
    ] = False,
    incoming: Annotated[
        bool, typer.Option("--incoming", metavar="", help="Only receive queues of SITE, no links to SITE.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Also unfinished ones; their entries are then lost.")
    ] = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Remove the sessions with SITE, its receive queues, and its claim on old entries.

    Only a finished link is forgotten, or a running one of a site outside `peers`. Run the command at both sites.
    `lrq link begin` lets the link begin again. Exit code 3 means that a link is not finished, or that there is none.
    """
    from lrq.cli.link_actions import forget as forget_links
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from queues.names import client_name, site_id

    there, of = site_id(destination), None if client is None else client_name(client)
    if outgoing and incoming:
        raise typer.BadParameter("--outgoing and --incoming exclude each other")
    ways = ["outgoing"] if outgoing else ["incoming"] if incoming else ["outgoing", "incoming"]
    with opened(config, database, site) as here:
        done = forget_links(here.engine, there, of, force=force, ways=ways)
    if as_json:
        emit({"site": here.site} | done.as_json())
    else:
        typer.echo(done.words(there))
