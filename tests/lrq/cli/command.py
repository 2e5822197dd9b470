"""The command `lrq`, run in this process or in a new one."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lrq.cli.main import run
from tests.forked import Popen
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]
_WARNING = "lrq: warning: "


@dataclass(frozen=True)
class Done:
    """The exit code and the output of a command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, f"nothing on stdout; exit code {self.code}: {self.err}"
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The error message, which must be the only line on stderr but for warnings; without the prefix `lrq: `."""
        (line,) = [line for line in self.err.splitlines() if not line.startswith(_WARNING)]
        assert line.startswith("lrq: "), self.err
        return line.removeprefix("lrq: ").strip()

    @property
    def warnings(self) -> list[str]:
        """The warnings on stderr, without their prefix."""
        return [line.removeprefix(_WARNING) for line in self.err.splitlines() if line.startswith(_WARNING)]


class Command:
    """Runs `lrq` in this process; commands that take over signals and logs run in a new one."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Done:
        if arguments[:1] in (("serve",), ("work",), ("provide",), ("console",)):
            process = lrq_process(*arguments)
            return Done(process.returncode, process.stdout.decode(), process.stderr.decode())
        self._capsys.readouterr()
        handlers = [*logging.getLogger().handlers]
        code = run(arguments)
        # Such a handler would write the logs of later tests to the closed stream of this test.
        assert logging.getLogger().handlers == handlers, f"lrq {arguments[0]} takes over the logs: start a process"
        captured = self._capsys.readouterr()
        return Done(int(code), captured.out, captured.err)


def ended(process: "subprocess.Popen[bytes]", log: Path | None = None, timeout: float = 90.0) -> int:
    """Wait for the end of a process; return its exit code. A process that does not end shows where it stands."""
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR1)
        stacks = "" if log is None else eventually(lambda: _after_stacks(log))
        raise AssertionError(f"{process.args} has not ended after {timeout:g} s\n{stacks}") from None


def _after_stacks(log: Path) -> str:
    _, begin, stacks = log.read_text().partition("most recent call last")
    return begin + stacks


def spawn(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start `lrq` in a new process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return Popen([sys.executable, "-m", "lrq.cli.main", *arguments], env=environment, **options)


def lrq_process(
    *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run `lrq` in a new process until its end."""
    process = spawn(*arguments, env=env or {}, stdin=-1, stdout=-1, stderr=-1)
    out, err = process.communicate(stdin, timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def unheard(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run `lrq` with a stdout whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    process = spawn(*arguments, stdout=writer, stderr=-1)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, None, err)


@dataclass
class Served:
    """A running `lrq serve`, with the facts that it printed."""

    process: subprocess.Popen[bytes]
    facts: dict[str, Any]
    log: Path

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.process.send_signal(number)
        return ended(self.process, self.log)


@contextmanager
def served(*arguments: str, folder: Path) -> Iterator[Served]:
    """Run `lrq serve --json` during the block, which begins once the server has printed its endpoints."""
    out, log = folder / "out", folder / "log"
    folder.mkdir(exist_ok=True)
    with out.open("wb") as stdout, log.open("wb") as stderr:
        process = spawn("serve", "--json", *arguments, stdout=stdout, stderr=stderr, cwd=folder)
    try:
        line = eventually(lambda: (out.read_text().endswith("\n") and out.read_text()) or process.poll() is not None)
        assert isinstance(line, str), log.read_text()
        yield Served(process, json.loads(line), log)
    finally:
        process.kill()
        process.wait(30)
