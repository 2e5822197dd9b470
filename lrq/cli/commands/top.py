"""`lrq top`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lrq.cli.options import Config, Database, Site

if TYPE_CHECKING:
    from lrq.cli.place import OpenSite


def top(
    interval: Annotated[float, typer.Option("--interval", "-n", min=0.1, help="Seconds between two frames.")] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", metavar="", help="Print only one frame, as always in a pipe.")
    ] = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
) -> None:
    """Watch a site: its status with rates, until q or Ctrl-C."""
    from lrq.cli.reader_place import opened_to_read

    with opened_to_read(config, database, site) as here:
        if once or not sys.stdout.isatty():
            _frame(here)
        else:
            from lrq.cli.views.top_screen import watch

            watch(here, interval)


def _frame(here: "OpenSite") -> None:
    from discovery.status import read_status
    from lrq.cli.output import console
    from lrq.cli.views.rates import Rates
    from lrq.cli.views.status import status_view

    console().print(status_view(read_status(here.engine).without_messages(), where=here.place.shown, rates=Rates()))
