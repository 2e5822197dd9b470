"""Start, kill and end the processes of the demonstration; none outlives it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import lrq
from queues.clock import SYSTEM_CLOCK
from queues.errors import LrqError

#: Time for processes to end before they are killed, in seconds; `IMPATIENCE` applies after an error.
PATIENCE: Final = 10.0
IMPATIENCE: Final = 1.0
_INSTALLED_AT: Final = str(Path(next(iter(lrq.__path__))).resolve().parent)


class DemonstrationError(LrqError):
    """The demonstration could not be completed."""


class Children:
    """Processes by role. Each has its own operating-system session, so that Ctrl-C reaches only the parent."""

    def __init__(self, folder: Path, program: str, *arguments: str) -> None:
        """Start no process yet; each runs the module *program* with its role and *arguments*, and works in *folder*."""
        self._folder = folder
        self._program = program
        self._arguments = arguments
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, role: str) -> None:
        """Start the process of *role*, with its output in a file."""
        with self._log(role).open("ab") as log:
            self._running[role] = subprocess.Popen(
                [sys.executable, "-P", "-m", self._program, role, *self._arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=_environment(self._folder),
                start_new_session=True,
            )

    def kill(self, role: str) -> None:
        """End *role* with SIGKILL, in the middle of its work."""
        process = self._running.pop(role)
        process.kill()
        self._reap(process)

    def stop(self, role: str) -> None:
        """Let *role* stand still with SIGSTOP, until `resume`."""
        self._running[role].send_signal(signal.SIGSTOP)

    def resume(self, role: str) -> None:
        """Let *role* go on after `stop`."""
        self._running[role].send_signal(signal.SIGCONT)

    def tell_to_end(self, *roles: str) -> None:
        """Ask *roles* to finish their work and end."""
        for role in roles:
            _close_input(self._running[role])

    def wait(self, *roles: str, patience: float = PATIENCE) -> None:
        """Wait until *roles* have ended, after `tell_to_end`; kill the rest after *patience* seconds."""
        deadline = SYSTEM_CLOCK.monotonic() + patience
        for role in roles:
            process = self._running.pop(role)
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))
            self._reap(process)

    def check(self) -> None:
        """Raise `DemonstrationError` if a process has ended without `tell_to_end`."""
        for role, process in self._running.items():
            if process.poll() is not None and process.stdin is not None and not process.stdin.closed:
                said = self._log(role).read_text(errors="replace").strip().splitlines()
                raise DemonstrationError(f"{role} ended by itself, saying: {said[-1] if said else 'nothing'}")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all processes."""
        roles = list(self._running)
        self.tell_to_end(*roles)
        self.wait(*roles, patience=PATIENCE if error is None else IMPATIENCE)

    def _log(self, role: str) -> Path:
        """Return the file for the output of *role*."""
        return self._folder / f"{role}.log"

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        """Kill *process* and its own children, such as the Java of Spark."""
        _close_input(process)
        with suppress(ProcessLookupError, PermissionError):  # macOS raises PermissionError for a dead group
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment in which Python finds lrq, and Python and Java write only to *folder*.

    No `LRQ_*` variable of a real site reaches the processes.
    """
    path = os.pathsep.join(filter(None, (_INSTALLED_AT, os.environ.get("PYTHONPATH"))))
    java = f"-Djava.io.tmpdir={folder} -XX:-UsePerfData {os.environ.get('JDK_JAVA_OPTIONS', '')}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LRQ_")}
    return {**kept, "PYTHONPATH": path, "TMPDIR": str(folder), "JDK_JAVA_OPTIONS": java}


def _close_input(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
