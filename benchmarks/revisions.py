"""One server of a site at two revisions, measured in turns: the CPU of rest and of deliveries.

Unpack the former revision beside this one, then compare:

    mkdir /tmp/former && git archive REVISION | tar -x -C /tmp/former
    python -m benchmarks.revisions /tmp/former
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from benchmarks.figures import Summary, shown
from benchmarks.report import table
from benchmarks.servers import binaries

HEADS: Final = ("number", "former", "now", "now / former", "min – max of the rounds")
_ROOT: Final = Path(__file__).resolve().parent.parent
_SCRIPT: Final = Path(__file__).with_name("one_server.py")

Found = Mapping[str, float]


def compare(
    former: Annotated[Path, typer.Argument(help="The folder of the former revision.")],
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each revision, in turns.")] = 5,
    rest: Annotated[float, typer.Option(min=1, help="Seconds of each idle server.")] = 20.0,
    entries: Annotated[int, typer.Option(min=100, help="Entries of each delivery.")] = 20_000,
    server: Annotated[str, typer.Option(help="auto, debian, wheel, or a folder of programs.")] = "auto",
) -> None:
    """Print the medians of both revisions, and the ratio in each round."""
    programs = binaries(server)
    if not (former / "benchmarks").is_dir():
        raise typer.BadParameter(f"{former} holds no revision: unpack one there with git archive")
    pairs: list[tuple[Found, Found]] = []
    for number in range(rounds):
        order = (former, _ROOT) if number % 2 == 0 else (_ROOT, former)
        found = {folder: _measured(folder, programs, rest, entries) for folder in order}
        pairs.append((found[former], found[_ROOT]))
        typer.echo(f"round {number + 1} of {rounds}", err=True)
    for line in table(HEADS, rows(pairs)):
        typer.echo(line)


def _measured(folder: Path, programs: Path, rest: float, entries: int) -> Found:
    # -P: the folder of the script, which holds this revision, must not come before PYTHONPATH.
    command = [sys.executable, "-P", str(_SCRIPT), str(programs), str(rest), str(entries)]
    ran = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(folder)}, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def rows(pairs: Sequence[tuple[Found, Found]]) -> list[tuple[str, ...]]:
    """Return a table row for each number of the (former, present) *pairs*, of which there is at least one."""
    return [_row(number, pairs) for number in pairs[0][0]]


def _row(number: str, pairs: Sequence[tuple[Found, Found]]) -> tuple[str, ...]:
    former, now = (Summary.of([pair[side][number] for pair in pairs]).median for side in (0, 1))
    # A short rest may take less CPU than the clock of processes shows: zero has no ratio.
    ratios = [pair[1][number] / pair[0][number] for pair in pairs if pair[0][number]]
    spread = f"{shown(min(ratios))} – {shown(max(ratios))}" if ratios else ""
    return number, shown(former), shown(now), shown(now / former) if former else "", spread


if __name__ == "__main__":
    typer.run(compare)
