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
    ring: Annotated[
        bool,
        typer.Option(
            "--ring",
            metavar="",
            help="Watch a ring of three servers instead, which loses its leader. Neither Spark nor Java is needed.",
        ),
    ] = False,
) -> int:
    """Watch four sites replicate the airports of the world, while one of them is killed.

    Site paris edits its table; tokyo and lima follow in their own processes. Site nairobi joins late and gets a Spark
    snapshot. The exit code is 0 only if every site ends with exactly the rows and entries addressed to it.

    With --ring, site paris keeps its log in three files, and a producer sends to tokyo. The leader is killed, and
    another member is cut off. The exit code is 0 only if each acknowledged entry is at tokyo once, in order.
    """
    from lrq.demo import run
    from lrq.demo.ring import run as run_ring
    from queues.errors import UsageError

    if ring and databases:
        raise UsageError("--databases does not go with --ring: a ring keeps its log in SQLite files")
    return run_ring(as_json) if ring else run(as_json, databases=databases)
