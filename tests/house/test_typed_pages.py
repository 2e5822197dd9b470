"""Pages to type: their files and commands, in order, print the shown lines.

Only ports, the folder of PostgreSQL's socket, and the installation differ.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clusters import cluster
from tests.deploy.kit import DEPLOY, helm, promtool
from tests.house.page_blocks import take
from tests.house.page_programs import ended_servers, pooler, server_makers, web_client

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(500)]

ROOT = Path(__file__).parents[2]
ON_SQLITE = (
    "tutorial",
    "backup",
    "alembic",
    "upgrade",
    "leaving",
    "peers",
    "attached-sites",
    "tls",
    "replicas",
    "shards",
    "frameworks",
)
ON_POSTGRESQL = (
    "backup-postgresql",
    "capacity",
    "copied-tables",
    "database",
    "joining",
    "least-privilege",
    "pgbouncer",
    "transmit",
)
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in (*ON_SQLITE, *ON_POSTGRESQL, "deploy", "standby")}
#: The folder of PostgreSQL's socket that the pages name.
SOCKETS = "/var/run/postgresql"
#: The languages of blocks that are files; the first line names the file.
FILES = ("python", "toml", "ini", "yaml")
for name in PAGES:
    take(__name__, f"docs/{name}.md", "console")
    take(__name__, f"docs/{name}.md", *FILES, begin=r"# \S+\.\w+\n")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: The line after the output of each command, with its exit code.
END = re.compile(r"^<end (\d+)>$")
#: Bash tells of a job that a signal has ended, at any later command.
KILLED = re.compile(r"bash: line \d+: +\d+ (Killed|Terminated) ")


class Terminal:
    """One shell in a folder; each command answers before the next one is typed."""

    def __init__(self, folder: Path, *programs: Path) -> None:
        """Open the shell; it also finds the programs in the folders *programs*."""
        path = os.pathsep.join((str(Path(sys.executable).parent), *map(str, programs), os.environ["PATH"]))
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LRQ_", "PG"))}
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
def type_page(tmp_path: Path) -> Iterator[Callable[..., None]]:
    with ExitStack() as stack:

        def typed(page: str, *programs: Path, folder: Path = tmp_path) -> None:
            terminal = Terminal(folder, *programs)
            stack.callback(terminal.close)
            type_all(page, terminal, folder)

        yield typed


@pytest.fixture
def client(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the folders of curl, if the machine has none."""
    return web_client(tmp_path_factory.mktemp("client"))


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


def type_all(page: str, terminal: Terminal, folder: Path) -> None:
    """Write the files of *page* and type its commands, in order."""
    typed = 0
    for language, block in BLOCK.findall(with_free_ports(page)):
        if language in FILES:
            file = folder / block.split()[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block)
        elif language == "console":
            for command, shown in commands(block):
                printed, code = terminal.type(command)
                print(f"$ {command}", *printed, sep="\n")
                logs = {log.name: log.read_text()[-2000:] for log in folder.glob("*.log")}
                assert code == 0, (command, printed, logs)
                assert fits(shown, printed), (command, shown, printed, logs)
                typed += 1
    assert typed > 5


#: The pages that `make test` types; `make nightly` types all.
EACH_TIME = ("transmit",)


def typed(pages: Iterable[str]) -> list[object]:
    """Return the *pages* as parameters, with the marks of their tests."""
    marks = {page: [pytest.mark.spark] if page == "tutorial" else [] for page in pages}
    return [
        pytest.param(page, marks=found if page in EACH_TIME else [*found, pytest.mark.nightly])
        for page, found in marks.items()
    ]


@pytest.mark.parametrize("page", typed(ON_SQLITE))
def test_a_page_works_as_printed(page: str, type_page: Callable[..., None], client: list[Path]):
    type_page(PAGES[page], *client)


@pytest.mark.postgresql
@pytest.mark.parametrize("page", typed(ON_POSTGRESQL))
def test_a_page_works_as_printed_on_postgresql(
    page: str, type_page: Callable[..., None], tmp_path_factory: pytest.TempPathFactory
):
    with cluster(max_connections="100") as server:
        programs = [server.programs]
        if page == "pgbouncer":
            programs.append(pooler(tmp_path_factory.mktemp("pooler"), server.folder.owner()))
        type_page(PAGES[page].replace(SOCKETS, str(server.folder)), *programs)


@pytest.mark.nightly
def test_the_page_of_deployment_works_as_printed(type_page: Callable[..., None], tmp_path: Path, client: list[Path]):
    (tmp_path / "deploy").symlink_to(DEPLOY)
    type_page(PAGES["deploy"], Path(helm()).parent, Path(promtool()).parent, *client)


@pytest.mark.nightly
@pytest.mark.postgresql
def test_the_page_of_standby_servers_works_as_printed(type_page: Callable[..., None], tmp_path: Path):
    with cluster() as server, ended_servers(server.folder.with_name("page")) as folder:
        makers = server_makers(tmp_path, server.programs, server.folder.owner())
        type_page(PAGES["standby"], makers, server.programs, folder=folder)


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
