"""`lrq link`."""

from typing import Annotated

import typer

from lrq.cli.options import Config, Database, Json, Site

app = typer.Typer(help="Release the claims of sites and clients that are gone for good.", no_args_is_help=False)


@app.callback(invoke_without_command=True)
def _link(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("forget")
def forget(
    destination: Annotated[str, typer.Argument(metavar="SITE", help="The site that is gone.")],
    client: Annotated[
        str | None, typer.Option("--client", metavar="NAME", help="Only the session of this client.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", metavar="", help="Also for sessions that are not inactive; the site may then need a snapshot."
        ),
    ] = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Keep no entries any more for a site that was taken away.

    Take the site out of `peers`, or the client out of `clients`, and restart the server first. The next run of trim
    removes entries that only this site lacked. A site that comes back gets a snapshot if it lost entries.
    """
    from lrq.cli.link_claims import forget as release
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from lrq.cli.words import plural
    from queues.names import client_name, site_id

    gone, of = site_id(destination), None if client is None else client_name(client)
    with opened(config, database, site) as here:
        done = release(here.engine, gone, of, force=force)
    if as_json:
        emit({"site": here.site, "released": [key._asdict() for key in done]})
    else:
        typer.echo(f"no entries are kept any more for {plural(len(done), 'session')} to {gone}")
