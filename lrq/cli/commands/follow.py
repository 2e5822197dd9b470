"""`lrq follow` and `lrq unfollow`."""

from typing import Annotated

import typer

from lrq.cli.options import Config, Database, Json, Site

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A table of the application, such as public.orders.")]
Client = Annotated[str, typer.Option("--client", metavar="NAME", help="The application stream, such as shop.")]


def follow(
    table: Table,
    client: Client,
    to: Annotated[
        list[str] | None, typer.Option("--to", metavar="SITE,...", help="The sites that get each change.")
    ] = None,
    sites_column: Annotated[
        str | None, typer.Option("--sites-column", metavar="NAME", help="The column that names the sites of each row.")
    ] = None,
    origin: Annotated[
        str,
        typer.Option("--origin", metavar="any|other|none", help="Whether rows that a listener applies are sent too."),
    ] = "any",
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Send each changed row of TABLE, by triggers.

    A second call for the same client replaces the settings. On SQLite run the command again after each change of the
    table's columns; until then changes of rows fail.
    """
    from lr_client.tables.following import follow_table
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from queues.database.transactions import writing

    sites = [name.strip() for each in to or () for name in each.split(",")]
    with opened(config, database, site) as here, writing(here.engine) as connection:
        follow_table(
            connection, table, client=client, destinations=sites, destinations_column=sites_column, origin=origin
        )
    if as_json:
        facts = {"site": here.site, "table": table, "client": client, "sites": sites, "sites_column": sites_column}
        emit(facts | {"origin": origin})
    else:
        whose = f"the sites in column {sites_column}" if sites_column else ", ".join(sites)
        typer.echo(f"client {client} follows {table} for {whose}")


def unfollow(
    table: Table,
    client: Client,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Send no more changes of TABLE by this client; entries that are written already are still delivered."""
    from lr_client.tables.following import unfollow_table
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from queues.database.transactions import writing

    with opened(config, database, site) as here, writing(here.engine) as connection:
        unfollow_table(connection, table, client=client)
    if as_json:
        emit({"site": here.site, "table": table, "client": client})
    else:
        typer.echo(f"client {client} follows {table} no more")
