"""Two versions of lrq on one machine: programs that run with either."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import lrq_packages
from tests.forked import Popen

#: The commit of the version before; each release names its predecessor here.
BEFORE = "ae0c475dd60605ca3073514812c2631bce30c92e"
ROOT = Path(lrq_packages.__file__).parent
_PROGRAMS = Path(__file__).parent / "programs"


class Running:
    """A process that ends with its standard input."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def works(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def stop(self) -> str:
        """End the process; return its output. Fails if the process has failed."""
        try:
            said, _ = self._process.communicate("stop\n", timeout=60)
        finally:
            self.abandon()
        errors = self._log.read_text()
        assert (self._process.returncode, "Traceback" in errors) == (0, False), errors
        return said.strip()

    def abandon(self) -> None:
        """Kill the process if it still runs, as after a failed test."""
        if self.works:
            self._process.kill()
            self._process.communicate()


@dataclass(frozen=True)
class Version:
    """One version of lrq, unpacked into *folder*; logs go to *logs*."""

    folder: Path
    logs: Path

    def start(self, program: str, *arguments: str) -> Running:
        """Start one of the programs with this version."""
        log = self.logs / f"{program}-{len(list(self.logs.iterdir()))}.log"
        with log.open("w") as errors:
            process = Popen(
                [sys.executable, str(_PROGRAMS / f"{program}.py"), *arguments],
                cwd=self.logs,
                env={**os.environ, "PYTHONPATH": str(self.folder)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        return Running(process, log)

    def run(self, program: str, *arguments: str) -> None:
        """Run a program to its end."""
        self.start(program, *arguments).stop()
