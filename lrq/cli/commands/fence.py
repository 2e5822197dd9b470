"""`lrq fence`."""

from typing import Annotated

import typer

from lrq.cli.command_group import command_group
from lrq.cli.exit_codes import NoError
from lrq.cli.options import Config, Database, Json, Site

app = command_group("List or reset the newest generations of other sites that this site knows.")

Client = Annotated[str | None, typer.Option("--client", metavar="NAME", help="Only the fence of this client.")]


@app.command("list")
def list_(config: Config = None, database: Database = None, site: Site = None, as_json: Json = False) -> None:
    """List the fences: the sink refuses servers of a source with a lower generation, because they are replaced."""
    from lrq.cli.output import add, console, emit, table
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.words import number
    from queues.database.transactions import reading
    from queues.receive.fences import fences

    with opened_to_read(config, database, site) as here, reading(here.engine) as connection:
        found = fences(connection)
    if as_json:
        emit({"site": here.site, "fences": [each._asdict() for each in found]})
        return
    made = table("Fences", "source", "client", ("generation", "right"))
    for each in found:
        add(made, [each.source, each.client, number(each.generation)])
    console().print(made if found else f"{here.site} has received nothing")


@app.command("reset")
def reset(
    source: Annotated[str, typer.Argument(metavar="SITE", help="The site whose generations to forget.")],
    client: Client = None,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Forget the newest known generation of SITE; the next server of SITE that connects is believed.

    Run this at the sink, after the other installation of SITE is stopped. No entry changes. The command works beside a
    server.
    """
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from lrq.cli.words import number
    from queues import names
    from queues.database.transactions import writing
    from queues.receive.fences import fences, reset_fences

    wanted = names.site_id(source), None if client is None else names.client_name(client)
    with opened(config, database, site) as here, writing(here.engine) as connection:
        found = fences(connection, *wanted)
        reset_fences(connection, found)
    if not found:
        raise NoError(f"{here.site} has received nothing from {source}{f' for {client}' if client else ''}")
    if as_json:
        emit({"site": here.site, "reset": [each._asdict() for each in found]})
        return
    for each in found:
        typer.echo(f"{each.client} from {each.source}: generation {number(each.generation)} is forgotten")
