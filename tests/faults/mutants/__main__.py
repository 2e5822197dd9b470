"""Apply each hand-made mutant in a copy of the tree and run its test: `python -m tests.faults.mutants [NAME ...]`."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.faults.mutants.patches import ROOT, Mutant, mutants

#: The longest run of one test, in seconds; a mutant that stops it is killed too.
LONGEST = 240
_PASSED, _FAILED = 0, 1


def copy_tree(to: Path) -> None:
    """Copy the files that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def run(tree: Path, *tests: str) -> int | None:
    """Run *tests* in *tree*; return the exit code of pytest, and None after `LONGEST` seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode not in (_PASSED, _FAILED):
        print(done.stdout[-2_000:], done.stderr[-2_000:], sep="\n")
    return done.returncode


def verdict(mutant: Mutant, tree: Path) -> str:
    """Return `killed`, or the reason why the mutant is not."""
    if words := mutant.apply(tree):
        return f"does not apply: {words.splitlines()[0]}"
    try:
        code = run(tree, mutant.killed_by)
    finally:
        mutant.apply(tree, "-R")
    if code == _PASSED:
        return "ALIVE"
    return "killed" if code in (_FAILED, None) else f"the test cannot run (exit code {code})"


def judge(chosen: Iterable[Mutant]) -> bool:
    """Print the verdict on each mutant; return whether all are killed."""
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="lrq-mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        for mutant in chosen:
            # A test that fails anyway would kill every mutant.
            healthy = run(tree, mutant.killed_by) == _PASSED
            verdicts.append(verdict(mutant, tree) if healthy else "the test fails without the mutant")
            print(f"{verdicts[-1]:8} {mutant.name}: {mutant.breaks}", flush=True)
    print(f"{verdicts.count('killed')} of {len(verdicts)} hand-made mutants are killed")
    return set(verdicts) <= {"killed"}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help="a mutant, by default each")
    names = options.parse_args().names
    known = {mutant.name: mutant for mutant in mutants()}
    if unknown := set(names) - set(known):
        options.error(f"no mutant {sorted(unknown)[0]}: choose of {', '.join(known)}")
    return 0 if judge([known[name] for name in names or known]) else 1


if __name__ == "__main__":
    sys.exit(main())
