"""The command `lrq`, in this process or in one of its own."""

import json
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

from lrq_cli.main import run
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line that it ended with."""
        assert self.err.startswith("lrq: "), self.err
        assert self.err.count("\n") == 1, self.err
        return self.err.removeprefix("lrq: ").strip()


class Command:
    """Runs `lrq` in this process; `lrq serve`, which takes over signals and logs, in one of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Done:
        if arguments[:1] == ("serve",):
            process = lrq_process(*arguments)
            return Done(process.returncode, process.stdout.decode(), process.stderr.decode())
        self._capsys.readouterr()
        code = run(arguments)
        captured = self._capsys.readouterr()
        return Done(int(code), captured.out, captured.err)


def spawn(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start `lrq` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return subprocess.Popen([sys.executable, "-m", "lrq_cli.main", *arguments], env=environment, **options)


def lrq_process(
    *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run `lrq` in a process of its own until it ends."""
    process = spawn(*arguments, env=env or {}, stdin=-1, stdout=-1, stderr=-1)
    out, err = process.communicate(stdin, timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@dataclass
class Served:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    facts: dict[str, Any]
    log: Path

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


@contextmanager
def served(*arguments: str, folder: Path) -> Iterator[Served]:
    """Run `lrq serve --json` until the end of the block; begin when it has told its endpoints."""
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
