"""`lrq top`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lrq_cli.options import Config, Database, Site

if TYPE_CHECKING:
    from lrq_cli.place import OpenSite


def top(
    interval: Annotated[float, typer.Option("--interval", "-n", min=0.1, help="Seconds between two looks.")] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", metavar="", help="Print one frame; a pipe always gets just one.")
    ] = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
) -> None:
    """Watch a site: its status with rates, until q or Ctrl-C."""
    from lrq_cli.place import opened

    with opened(config, database, site) as here:
        if once or not sys.stdout.isatty():
            _frame(here)
        else:
            from lrq_cli.watching import watch

            watch(here, interval)


def _frame(here: "OpenSite") -> None:
    from lr_server.status import read_status
    from lrq_cli.output import console
    from lrq_cli.rates import Rates
    from lrq_cli.status_view import status_view

    console().print(status_view(read_status(here.engine), where=here.place.shown, rates=Rates()))
