"""`lrq drain`."""

from typing import Annotated

import typer

from lrq.cli.exit_codes import NoError
from lrq.cli.options import Config, Database, Json, Site, Strict


def drain(
    timeout: Annotated[
        float, typer.Option("--timeout", "-t", metavar="SECONDS", min=0, help="How long to wait at most.")
    ] = 60.0,
    destination: Annotated[
        list[str] | None,
        typer.Option("--destination", metavar="SITE", help="Only for this site; may be repeated."),
    ] = None,
    client: Annotated[str | None, typer.Option("--client", metavar="NAME", help="Only for this client.")] = None,
    applied: Annotated[
        bool, typer.Option("--applied", metavar="", help="Wait until the subscribers have applied the entries, too.")
    ] = False,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Wait until every session has acknowledged all entries committed now.

    The command only reads the database; the server runs elsewhere. Exit code 3 means a timeout; the error line names
    the sessions that lag behind.
    """
    from lrq.cli.known_names import check_names
    from lrq.cli.output import emit
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.waits.drain import Scope, drain
    from queues.names import client_name, site_id

    scope = Scope(
        client=None if client is None else client_name(client),
        destinations=frozenset(site_id(name) for name in destination or ()),
        applied=applied,
    )
    with opened_to_read(config, database, site) as here:
        check_names(here, sites=sorted(scope.destinations), clients=[client] if client else [], strict=strict)
        outcome = drain(here.engine, scope, timeout)
    if as_json:
        emit(outcome.as_json())
    if not outcome.drained:
        raise NoError(f"not drained after {timeout:g} s: {'; '.join(outcome.reasons())}")
    if not as_json:
        typer.echo(outcome.words())
