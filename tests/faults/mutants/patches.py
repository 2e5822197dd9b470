"""The hand-made mutants: each breaks one promise of the code, and a named test must notice."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]


@dataclass(frozen=True)
class Mutant:
    """A patch of the code, the promise that it breaks, and the test that must fail with it."""

    path: Path
    breaks: str
    killed_by: str

    @property
    def name(self) -> str:
        return self.path.stem

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the two lines before the patch; raise `ValueError` if one is missing."""
        breaks, killed_by, *_ = path.read_text().splitlines()
        return cls(path, _after("Breaks: ", breaks, path), _after("Killed by: ", killed_by, path))

    def apply(self, tree: Path, *options: str) -> str:
        """Apply the patch in *tree*; return the words of git, empty if it applies."""
        # One line of context suffices, so that changes nearby leave the patch usable.
        command = ["git", "apply", "-C1", *options, str(self.path)]
        return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False).stderr


def _after(word: str, line: str, path: Path) -> str:
    if not line.startswith(word):
        raise ValueError(f"{path.name} has no line `{word.strip()} ...` before the patch: add the line")
    return line.removeprefix(word)


def mutants() -> Iterator[Mutant]:
    """Return all hand-made mutants, sorted by name."""
    return map(Mutant.read, sorted(FOLDER.glob("*.patch")))
