"""Empty environments with the wheel and the libraries that a page names."""

import os
import re
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"


def clean() -> dict[str, str]:
    """Return the variables of this process without those by which Python would find this checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LRQ_"))}


class Light:
    """An environment with the wheel and its dependencies only."""

    def __init__(self, folder: Path, *requirements: str | Path) -> None:
        self.folder = folder
        venv.create(folder, symlinks=True)
        self.pip("install", *requirements)

    def pip(self, *arguments: str | Path) -> str:
        command = [sys.executable, "-m", "pip", "--python", self.folder / "bin" / "python"]
        done = subprocess.run(
            [*command, "--disable-pip-version-check", "--quiet", *arguments],
            env=clean(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        command = [self.folder / "bin" / program, *arguments]
        return subprocess.run(
            command, cwd=folder, env=clean(), capture_output=True, text=True, timeout=100, check=False
        )

    @contextmanager
    def running(self, program: str, *arguments: str, folder: Path, **variables: str) -> Iterator["Lines"]:
        """Run *program* during the block; give the lines of its stdout and stderr."""
        process = subprocess.Popen(
            [self.folder / "bin" / program, *arguments],
            cwd=folder,
            env={**clean(), "PYTHONUNBUFFERED": "1", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines = Lines(process)
        try:
            yield lines
        finally:
            process.kill()
            lines.close()


class Lines:
    """The lines of a running process; a thread reads them, so that the process never waits for a reader."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.append(line)

    def find(self, pattern: str) -> str:
        """Wait for a line with *pattern*; return the match, or fail with all lines if the process ends before."""

        def matches() -> str | None:
            ended = self._process.poll() is not None
            if ended:
                self._reader.join()
            if found := re.search(pattern, "".join(self._lines)):
                return found[0]
            assert not ended, f"the process ended before {pattern!r}: {self._lines}"
            return None

        return str(eventually(matches, timeout=60))

    def close(self) -> None:
        self._process.wait()
        self._reader.join()
        assert self._process.stdout
        self._process.stdout.close()


def example(name: str, folder: Path, wheel: Path) -> tuple[Light, Path]:
    """Copy the example *name* into *folder* and install exactly the packages that its README names, lrq as *wheel*."""
    copy = shutil.copytree(EXAMPLES / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    named = re.search(r"^pip install ([^#\n]+)", (copy / "README.md").read_text(), re.MULTILINE)
    assert named, f"the README of {name} names no packages"
    requirements = [word.strip("'").replace("../..[", f"{wheel}[") for word in named[1].split()]
    return Light(folder / "environment", *requirements), copy
