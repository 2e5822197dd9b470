"""`lrq status`."""

import typer

from lrq.cli.exit_codes import Exit
from lrq.cli.options import Config, Database, Json, Site


def status(config: Config = None, database: Database = None, site: Site = None, as_json: Json = False) -> int:
    """Show the status of a site: its server, log, sessions, snapshots and receive queues.

    The column *behind* counts entries that the other site has not acknowledged as durable. Exit code 3 means that a
    part is stalled or failed. The last lines name it, and so does `troubles` of --json.
    """
    from discovery.status import read_status
    from lrq.cli.doctor import postgresql, sqlite_file
    from lrq.cli.health import troubles
    from lrq.cli.output import console, emit
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.views.status import status_view

    with opened_to_read(config, database, site) as here:
        found = read_status(here.engine).without_messages()
        lacking = [*sqlite_file.lacking_room(here.place.url), *postgresql.lacking_room(here.engine)]
        wrong = [*lacking, *troubles(found, is_full=bool(lacking))]
        if as_json:
            emit(found.as_json() | {"troubles": wrong})
        else:
            console().print(status_view(found, where=here.place.shown, beside=lacking))
    if as_json:
        for words in lacking:
            typer.echo(f"lrq: warning: {words}", err=True)
    return Exit.NO if wrong else Exit.WELL
