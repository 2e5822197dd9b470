"""`lrq demo`."""

from typing import Annotated

import typer

from lrq.cli.options import Json


def demo(
    as_json: Json = False,
    databases: Annotated[
        str | None,
        typer.Option(
            "--databases",
            metavar="URL",
            help="An empty database for each site, {site} being its name; by default SQLite in a temporary folder.",
        ),
    ] = None,
) -> int:
    """Watch four sites replicate the airports of the world, while one of them is killed.

    Site paris edits its table; tokyo and lima follow in their own processes. Site nairobi joins late and gets a Spark
    snapshot. The exit code is 0 only if every site ends with exactly the rows and entries addressed to it.
    """
    from lrq.demo import run

    return run(as_json, databases=databases)
