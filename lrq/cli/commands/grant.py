"""`lrq grant`."""

from enum import StrEnum
from typing import Annotated

import typer

from lrq.cli.options import Config, Database, Json, Site


class GranteeName(StrEnum):
    """The parts of an application that may have roles of their own."""

    SENDER = "sender"
    SUBSCRIBER = "subscriber"
    SERVER = "server"
    MONITOR = "monitor"


def grant(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A role of PostgreSQL, without quotes.")],
    part: Annotated[GranteeName, typer.Option("--as", help="The part of the application that logs in as ROLE.")],
    search_path: Annotated[
        bool,
        typer.Option("--search-path", metavar="", help="Add the tables' schema to the search_path of ROLE here."),
    ] = False,
    sql: Annotated[bool, typer.Option("--sql", metavar="", help="Only print the SQL.")] = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Give a role of PostgreSQL exactly the rights that a part of the application needs on the tables of lrq.

    A **sender** transmits, waits for replication, requests snapshots and provides them. A **subscriber** follows
    receive queues and shows the status. A **server** serves the site; only the owner of the tables can migrate them.
    A **monitor** reads the views `lrq_lag` and `lrq_links`, and no table.

    Run this as the owner of the tables, and again after each `lrq init` that has migrated them. Rights on the
    application's own tables are not touched. Repeating changes nothing.
    """
    from lrq.cli.output import emit
    from lrq.cli.place import locate, opened
    from queues.database import grants
    from queues.database.grantees import Grantee
    from queues.database.schemas import schema_of

    if sql:
        place = locate(config, database, site)
        made = grants.statements(
            place.url.get_backend_name(), role, Grantee(part), schema=schema_of(place.url), search_path=search_path
        )
        typer.echo("".join(f"{each};\n" for each in made), nl=False)
        return
    with opened(config, database, site) as here:
        schema = grants.grant(here.engine, role, Grantee(part), search_path=search_path)
    if as_json:
        emit({"site": here.site, "role": role, "as": part.value, "schema": schema})
    else:
        typer.echo(f"{here.site}: role {role} has the rights of a {part.value} on lrq's tables in schema {schema}")
