"""Show findings as a table on a terminal, and as plain lines elsewhere."""

import sys
from collections.abc import Iterable
from typing import Final

import typer
from rich.text import Text

from lrq.cli.doctor.findings import Finding, Severity, summary
from lrq.cli.output import add, console, table
from lrq.cli.words import one_line

_COLOURS: Final = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.PROBLEM: "red"}


def show(findings: Iterable[Finding]) -> None:
    """Print *findings* and their summary."""
    made = list(findings)
    if sys.stdout.isatty():
        shown = table("lrq doctor", "", "check", ("finding", "fold"), ("remedy", "fold"))
        for each in made:
            level = Text(each.level.value, style=_COLOURS[each.level])
            add(shown, [level, each.check, one_line(each.sentence), one_line(each.cure)])
        console().print(shown)
    else:
        for each in made:
            typer.echo(line(each))
    typer.echo(summary(made))


def line(finding: Finding) -> str:
    """Return a finding as one line. Pure."""
    cure = f": {finding.cure}" if finding.cure else ""
    return f"{finding.level.value:<8} {finding.check}: {one_line(finding.sentence + cure)}"
