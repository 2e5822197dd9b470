"""Pages to type: their files and commands, in order, print the shown lines. Only ports and the installation differ."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(500)]

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("tutorial", "backup", "alembic")}
#: The languages of blocks that are files; the first line names the file.
FILES = ("python", "toml", "ini")
#: The blocks of shell that no test types.
UNTYPED = {"tutorial": ["pip install '.[cli,spark]'\nmkdir tutorial\ncd tutorial\n"], "backup": [], "alembic": []}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: The line after the output of each command, with its exit code.
END = re.compile(r"^<end (\d+)>$")
#: Bash tells of a job that a signal has ended, at any later command.
KILLED = re.compile(r"bash: line \d+: +\d+ (Killed|Terminated) ")


class Terminal:
    """One shell in a folder; each command answers before the next one is typed."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LRQ_"))}
        self._shell = subprocess.Popen(
            ["bash"], cwd=folder, env={**clean, "PATH": path, "COLUMNS": "120"}, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def type(self, command: str) -> tuple[list[str], int]:
        """Return the printed lines, with one space in place of several, and the exit code."""
        assert self._shell.stdin
        assert self._shell.stdout
        print(command, 'echo "<end $?>"', sep="\n", file=self._shell.stdin, flush=True)
        lines: list[str] = []
        for line in self._shell.stdout:
            if end := END.match(line):
                return lines, int(end[1])
            if not KILLED.match(line) and line.strip():
                lines.append(" ".join(line.split()))
        raise AssertionError(f"the shell ended in {command!r}: {lines}")

    def close(self) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def with_free_ports(page: str) -> str:
    """Replace each port of *page* by a free one."""
    probes = {port: socket.create_server(("127.0.0.1", 0)) for port in sorted(set(re.findall(r"\b74\d\d\b", page)))}
    for port, probe in probes.items():
        page = page.replace(port, str(probe.getsockname()[1]))
        probe.close()
    return page


def commands(block: str) -> list[tuple[str, list[str]]]:
    """Return each command of a block with the lines that the page shows after it."""
    first, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert first == ""
    return [(lines[0], [" ".join(line.split()) for line in lines[1:]]) for lines in map(str.splitlines, parts)]


def fits(shown: list[str], printed: list[str]) -> bool:
    """Return whether *printed* has the *shown* lines; `…` stands for any text, and alone for any lines."""
    wanted = "".join(r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in shown)
    return re.fullmatch(wanted, "".join(f"{line}\n" for line in printed)) is not None


@pytest.mark.parametrize("page", [pytest.param("tutorial", marks=pytest.mark.spark), "backup", "alembic"])
def test_a_page_works_as_printed(page: str, terminal: Terminal, tmp_path: Path):
    typed = 0
    for language, block in BLOCK.findall(with_free_ports(PAGES[page])):
        if language in FILES:
            file = tmp_path / block.split()[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block)
        elif language == "console":
            for command, shown in commands(block):
                printed, code = terminal.type(command)
                print(f"$ {command}", *printed, sep="\n")
                logs = {log.name: log.read_text()[-2000:] for log in tmp_path.glob("*.log")}
                assert code == 0, (command, printed, logs)
                assert fits(shown, printed), (command, shown, printed, logs)
                typed += 1
    assert typed > 5


@pytest.mark.parametrize("page", PAGES)
def test_the_installation_is_the_only_block_that_is_not_typed(page: str):
    blocks = BLOCK.findall(PAGES[page])
    assert [block for language, block in blocks if language not in (*FILES, "console")] == UNTYPED[page]


@pytest.mark.parametrize(
    ("shown", "printed", "is_fit"),
    [
        ([], [], True),
        ([], ["more"], False),
        (["one"], ["one"], True),
        (["one"], ["two"], False),
        (["a …/3"], ["a b/3"], True),
        (["…"], [], True),
        (["…", "end"], ["1", "2", "end"], True),
        (["…", "end"], ["1", "2"], False),
    ],
)
def test_shown_lines_are_compared(shown: list[str], printed: list[str], is_fit: bool):
    assert fits(shown, printed) is is_fit
