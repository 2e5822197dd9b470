"""Let mutmut change the pure modules and count the changes that their tests notice, within a given time.

The modules and their tests stand in `pyproject.toml` under `tool.mutmut`. A later run goes on where an earlier one
ended, unless `mutants/` is removed.
"""

import argparse
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.faults.mutants.patches import ROOT

#: mutmut's exit codes that tell that tests passed, or that no test calls the changed function.
_SURVIVED, _UNTESTED = 0, 33
_KINDS = ("killed", "alive", "untested", "not tried")


def run(minutes: float) -> None:
    """Run mutmut for at most *minutes*; its results are kept in `mutants/`."""
    command = [sys.executable, "-m", "mutmut", "run"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as running:
        try:
            running.wait(minutes * 60)
        except subprocess.TimeoutExpired:
            print(f"mutmut is ended after {minutes:g} minutes", flush=True)
            running.send_signal(signal.SIGINT)


def results(folder: Path) -> Iterator[tuple[str, Counter[str]]]:
    """Return the results of each changed module."""
    for kept in sorted(folder.rglob("*.meta")):
        codes = json.loads(kept.read_text())["exit_code_by_key"].values()
        if codes:
            yield str(kept.relative_to(folder).with_suffix("")), Counter(map(kind, codes))


def kind(code: int | None) -> str:
    """Return the meaning of mutmut's exit code; a mutant that stops the tests is killed too."""
    return {None: "not tried", _SURVIVED: "alive", _UNTESTED: "untested"}.get(code, "killed")


def line(name: str, found: Counter[str]) -> str:
    tried = found.total() - found["not tried"]
    share = f"{found['killed'] / tried:.1%}" if tried else "-"
    return " ".join([f"{name:40}", *(f"{found[each]:9}" for each in _KINDS), f"{share:>9}"])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=30.0, help="the longest time for new mutants; 0 only counts")
    minutes = options.parse_args().minutes
    if minutes:
        run(minutes)
    every = list(results(ROOT / "mutants"))
    print(" ".join([f"{'module':40}", *(f"{each:>9}" for each in _KINDS), f"{'killed':>9}"]))
    for name, found in every:
        print(line(name, found))
    total = sum((found for _, found in every), Counter())
    print(line("all", total))
    if not total["killed"]:
        print("no mutant has been tried yet: give more minutes")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
