"""The processes of the demonstration, seen from outside: started, killed, and never left behind."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import lrq_cli
from lrq_cli.demo.sites import Places
from queues.clock import SYSTEM_CLOCK
from queues.errors import LrqError

#: How long processes may take to end by themselves, in seconds; and how long when something went wrong.
PATIENCE: Final = 10.0
IMPATIENCE: Final = 1.0
_INSTALLED_AT: Final = str(Path(next(iter(lrq_cli.__path__))).resolve().parent)


class DemonstrationError(LrqError):
    """The demonstration did not get to its end."""


class Children:
    """Processes by their roles. Each has a session of its own, so that Ctrl-C does not reach it before us."""

    def __init__(self, places: Places) -> None:
        """Start none yet."""
        self._places = places
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, role: str) -> None:
        """Start the process of *role*; what it prints goes to a file."""
        command = [sys.executable, "-P", "-m", "lrq_cli.demo.process", role]
        with self._places.log(role).open("ab") as log:
            self._running[role] = subprocess.Popen(
                [*command, str(self._places.folder), self._places.databases],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._places.folder,
                env=_environment(self._places.folder),
                start_new_session=True,
            )

    def kill(self, role: str) -> None:
        """End *role* with SIGKILL, in the middle of whatever it does."""
        process = self._running.pop(role)
        process.kill()
        self._reap(process)

    def tell_to_end(self, *roles: str) -> None:
        """Let *roles* finish what they do."""
        for role in roles:
            _close_input(self._running[role])

    def wait(self, *roles: str, patience: float = PATIENCE) -> None:
        """Wait until *roles*, which were told to, have ended; kill those that have not after *patience* seconds."""
        deadline = SYSTEM_CLOCK.monotonic() + patience
        for role in roles:
            process = self._running.pop(role)
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))
            self._reap(process)

    def check(self) -> None:
        """Raise `DemonstrationError` when one has ended that nobody told to."""
        for role, process in self._running.items():
            if process.poll() is not None and process.stdin is not None and not process.stdin.closed:
                said = self._places.log(role).read_text(errors="replace").strip().splitlines()
                raise DemonstrationError(f"{role} ended by itself, saying: {said[-1] if said else 'nothing'}")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all of them."""
        roles = list(self._running)
        self.tell_to_end(*roles)
        self.wait(*roles, patience=PATIENCE if error is None else IMPATIENCE)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        """End what is left of *process* and of what it has started itself (Spark's Java)."""
        _close_input(process)
        with suppress(ProcessLookupError, PermissionError):  # the latter is what macOS says of a dead group
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment in which Python finds us, and Python and Java leave nothing outside of *folder*."""
    path = os.pathsep.join(filter(None, (_INSTALLED_AT, os.environ.get("PYTHONPATH"))))
    java = f"-Djava.io.tmpdir={folder} -XX:-UsePerfData {os.environ.get('JDK_JAVA_OPTIONS', '')}"
    return {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder), "JDK_JAVA_OPTIONS": java}


def _close_input(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
