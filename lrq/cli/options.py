"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

_WHERE = "Where the site is"


class Level(StrEnum):
    """The lowest level of events to log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


LogLevel = Annotated[Level, typer.Option("--log-level", help="The lowest level to log, to stderr.")]
LogFormat = Annotated[Format, typer.Option("--log-format", help="The format of the log.")]

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The site's lrq.toml.", rich_help_panel=_WHERE),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        "-d",
        metavar="URL",
        help="The site's database, such as sqlite:///paris.db.",
        rich_help_panel=_WHERE,
    ),
]
Site = Annotated[
    str | None,
    typer.Option(
        "--site", "-s", metavar="ID", help="The site's id; it must be the id in the database.", rich_help_panel=_WHERE
    ),
]


def _one_site_each(sites: list[str]) -> list[str]:
    for each in sites:
        if "," in each:
            raise typer.BadParameter(f"{each!r} has a comma: repeat --to for each site")
    return sites


To = Annotated[
    list[str],
    typer.Option("--to", "-t", metavar="SITE", help="A destination; may be repeated.", callback=_one_site_each),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", metavar="", help="Refuse names of sites and clients that are unknown here; warn otherwise."
    ),
]
MaxConnections = Annotated[
    int, typer.Option("--max-connections", metavar="N", min=3, help="How many connections to the database at most.")
]
AwaitTables = Annotated[
    float,
    typer.Option(
        "--await-tables",
        metavar="SECONDS",
        min=0,
        help="How long to wait for the tables of the site, which `lrq init` or `lrq serve --init` makes.",
        rich_help_panel=_WHERE,
    ),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask for confirmation.")]

# A receive queue.
OfClient = Annotated[str, typer.Argument(metavar="CLIENT", help="The client of the receive queue.")]
OfSource = Annotated[str, typer.Argument(metavar="SOURCE", help="The site that sends the entries of the queue.")]
