"""Print results to stdout: tables for people, JSON for programs."""

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Width of tables outside a terminal, in characters.
_PLAIN_WIDTH: Final = 160
#: Kinds of columns that share the remaining width.
_FLEXIBLE: Final = ("fold", "cut")


def console() -> Console:
    """Return a console on stdout, wide enough for tables in a file."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return Console(highlight=False)
    return Console(highlight=False, width=_PLAIN_WIDTH)


def emit(facts: Any) -> None:  # noqa: ANN401 - any value that JSON can hold
    """Print one JSON object: on one line, or indented on a terminal."""
    typer.echo(json.dumps(facts, indent=2 if sys.stdout.isatty() else None))


def table(title: str, *columns: str | tuple[str, str]) -> Table:
    """Return an empty table; a column is a heading, or a heading with `right`, `fold` or `cut`."""
    made = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        header_style="dim",
        pad_edge=False,
        show_edge=False,
        collapse_padding=True,
    )
    made.expand = any(column[1] in _FLEXIBLE for column in columns if not isinstance(column, str))
    for column in columns:
        heading, kind = (column, "") if isinstance(column, str) else column
        if kind == "right":
            made.add_column(heading, justify="right", no_wrap=True)
        elif kind == "fold":
            made.add_column(heading, overflow="fold", ratio=1)
        elif kind == "cut":
            made.add_column(heading, overflow="ellipsis", no_wrap=True, ratio=1)
        else:
            made.add_column(heading, no_wrap=True)
    return made


def add(made: Table, cells: Iterable[str | Text]) -> None:
    """Add a row; markup in a plain string is not interpreted."""
    made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))
