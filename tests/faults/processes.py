"""Start, kill and stop the processes of a fault run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.forked import Popen

HOUSE = Path(__file__).parents[2]


class Process:
    """One process in a role; its output goes to a file in the run's folder."""

    def __init__(self, role: str, name: str, folder: str, *, module: str = "tests.faults.roles") -> None:
        self.role = role
        self.name = name
        self.log = Path(folder) / f"{name}.log"
        self._folder = folder
        self._module = module
        self._running: subprocess.Popen[bytes] | None = None
        self._seen = 0

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def start(self) -> None:
        """Start the process, or start it again after it has ended."""
        command = [sys.executable, "-W", "error", "-m", self._module, self.role, self.name, self._folder]
        self._seen = len(self.words())
        with self.log.open("ab") as log:
            self._running = Popen(
                command, cwd=HOUSE, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(HOUSE)}
            )

    def kill(self) -> None:
        """Kill the process at once and wait for its end."""
        self.signal(signal.SIGKILL)
        self.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._running is not None
        self._running.send_signal(number)

    def wait(self, timeout: float = 30.0) -> int:
        """Wait at most *timeout* seconds for the end; return the exit code."""
        assert self._running is not None
        return self._running.wait(timeout)

    def stop(self) -> int:
        """Send SIGTERM and return the exit code; raise `TimeoutExpired` after a kill."""
        if self._running is None:
            return 0
        if self._running.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def words(self) -> list[str]:
        """Return the statuses that the process has printed, oldest first."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [line.removeprefix("STANDS ") for line in lines if line.startswith("STANDS ")]

    @property
    def is_up(self) -> bool:
        """Whether the process has printed a status since its last start."""
        return len(self.words()) > self._seen

    def has_logged(self, words: str) -> bool:
        """Return whether the process ever printed *words*."""
        return words in self.log.read_text(errors="replace")

    def stands(self, words: str) -> bool:
        """Return whether the newest status contains *words*."""
        return words in "".join(self.words()[-1:])

    def abandon(self) -> None:
        """Kill the process if it still runs, as after a failed test."""
        if self._running is not None and self._running.poll() is None:
            self._running.kill()
            self._running.wait()
