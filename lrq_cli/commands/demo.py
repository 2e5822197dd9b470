"""`lrq demo`."""

from typing import Annotated

import typer

from lrq_cli.options import Json


def demo(
    as_json: Json = False,
    databases: Annotated[
        str | None,
        typer.Option(
            "--databases",
            metavar="URL",
            help="An empty database for each site, {site} being its name; else SQLite, in a folder that goes.",
        ),
    ] = None,
) -> int:
    """Watch four sites replicate the airports of the world, while one of them is killed.

    Site paris edits its table; tokyo and lima follow in processes of their own; nairobi joins late and gets a Spark
    snapshot. It ends with the proof that every site holds exactly what it is owed: only then the exit code is 0.
    """
    from lrq_cli.demo import run

    return run(as_json, databases=databases)
