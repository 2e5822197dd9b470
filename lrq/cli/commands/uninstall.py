"""`lrq uninstall`."""

from typing import Annotated

import typer

from lrq.cli.exit_codes import NoError
from lrq.cli.options import Config, Database, Json, Site


def uninstall(
    yes: Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Remove also beside a server, or with undelivered entries.")
    ] = False,
    sql: Annotated[bool, typer.Option("--sql", metavar="", help="Only print the SQL, of the newest schema.")] = False,
    transactional: Annotated[
        bool, typer.Option("--transactional", metavar="", help="With --sql: between BEGIN and COMMIT.")
    ] = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Remove everything of lrq from a site's database: tables, functions, triggers and sequences.

    All entries, positions and snapshots are lost. Tables of the application are never touched. A schema of lrq's own is
    dropped too if nothing else stands in it.

    The command refuses while a server works for the site, and while entries are undelivered or not applied yet.
    """
    import queues
    from lrq.cli.output import emit
    from lrq.cli.place import engine_of, locate
    from lrq.cli.removal import obstacles, printed

    if transactional and not sql:
        raise typer.BadParameter("--transactional goes with --sql")
    place = locate(config, database, site)
    if sql:
        typer.echo(printed(place, transactional=transactional), nl=False)
        return
    with engine_of(place) as engine:
        reasons = [] if force else obstacles(engine, place.site)
        if reasons:
            raise NoError(f"{reasons[0]}, or say --force")
        if not yes and not typer.confirm(f"Remove all tables of lrq from {place.shown}, with all entries?", err=True):
            raise NoError("nothing was removed")
        with engine.begin() as connection:
            queues.downgrade(connection)
    if as_json:
        emit({"database": place.shown, "removed": True})
    else:
        typer.echo(f"{place.shown}: everything of lrq is removed")
