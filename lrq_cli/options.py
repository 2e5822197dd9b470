"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

_WHERE = "Where the site is"

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The site's lrq.toml.", rich_help_panel=_WHERE),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database", "-d", metavar="URL", help="Its database, such as sqlite:///paris.db.", rich_help_panel=_WHERE
    ),
]
Site = Annotated[
    str | None,
    typer.Option(
        "--site", "-s", metavar="ID", help="Its id; the database must be that site's.", rich_help_panel=_WHERE
    ),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print facts as JSON.")]
