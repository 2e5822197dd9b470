"""The README's first run: its commands, in an empty environment, deliver an entry between two terminals."""

import os
import shlex
import signal
import socket
import subprocess
import threading
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from queues.clock import SYSTEM_CLOCK
from tests.house.page_blocks import take
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(500)]

(APPLY,) = take(__name__, "README.md", "python")
TOKYO, PARIS = (block.splitlines() for block in take(__name__, "README.md", "", begin="pip install|lrq serve"))


class Terminal:
    """A shell in a folder, into which commands are typed one after the other."""

    def __init__(self, folder: Path, programs: Path) -> None:
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LRQ_"))}
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={**clean, "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._shell.stdout
        for line in self._shell.stdout:
            self.lines.append(line)

    def type(self, *commands: str, until: str) -> None:
        """Type *commands* at once, and wait until a line has the text *until*."""
        assert self._shell.stdin
        print(*commands, sep="\n", file=self._shell.stdin, flush=True)
        self.shows(until)

    def shows(self, text: str) -> None:
        """Wait until a line has *text*; fail with all lines."""
        eventually(lambda: any(text in line for line in self.lines) or self._not_yet(text), timeout=300)

    def _not_yet(self, text: str) -> None:
        assert self._shell.poll() is None, f"the shell ended before {text!r}: {self.lines}"

    def close(self) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[tuple[Terminal, Terminal]]:
    venv.create(tmp_path / "environment", with_pip=True, symlinks=True)
    opened = tuple(Terminal(tmp_path, tmp_path / "environment" / "bin") for _ in range(2))
    yield opened
    for terminal in opened:
        terminal.close()


def test_the_commands_of_the_readme_deliver_an_entry_between_two_terminals(
    wheel: Path, terminals: tuple[Terminal, Terminal], tmp_path: Path
):
    assert len(TOKYO) + len(PARIS) <= 6
    (tmp_path / "apply.py").write_text(APPLY)
    port = free_port()
    at_tokyo, at_paris = terminals

    def real(command: str) -> str:
        return command.replace("'.[cli]'", shlex.quote(f"{wheel}[cli]")).replace("7400", str(port))

    begun = SYSTEM_CLOCK.monotonic()
    install, serve, work = map(real, TOKYO)
    at_tokyo.type(f"{install} && echo installed", until="installed")
    installed = SYSTEM_CLOCK.monotonic()
    at_tokyo.type(serve, work, until="listens to policy")
    serve, send = map(real, PARIS)
    at_paris.type(serve, send, until="paris/policy/")
    at_tokyo.shows("paris b'rule 1'")
    assert not any("warning" in line for line in at_paris.lines)
    done = SYSTEM_CLOCK.monotonic()
    print(f"installed after {installed - begun:.1f} s, delivered {done - installed:.1f} s later")
