"""`lrq status`."""

from lrq_cli.failing import Exit
from lrq_cli.options import Config, Database, Json, Site


def status(config: Config = None, database: Database = None, site: Site = None, as_json: Json = False) -> int:
    """Show how a site stands: its server, its log, its sessions, its snapshots, its receive queues.

    How far a session is *behind* counts what the other site has not acknowledged as durable. Exit code 3 means
    that something is stalled or failed; the last lines tell what.
    """
    from lr_server.status import read_status
    from lrq_cli.health import troubles
    from lrq_cli.output import console, emit
    from lrq_cli.place import opened
    from lrq_cli.status_view import status_view

    with opened(config, database, site) as here:
        found = read_status(here.engine)
        if as_json:
            emit(found)
        else:
            console().print(status_view(found, where=here.place.shown))
    return Exit.NO if troubles(found) else Exit.WELL
