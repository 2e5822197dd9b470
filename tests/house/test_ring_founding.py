"""Commands of docs/running-a-ring.md found a ring of three servers that work, and start a provider beside them."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.page_blocks import take
from tests.house.test_ring_page import ONE
from tests.house.test_typed_pages import Terminal
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(300)]

MEMBERS = ("a", "b", "c")
#: The commands of each member in order, and those that the page gives without a member.
(FOUNDING,) = take(__name__, "docs/running-a-ring.md", "", begin=r"a\$ lrq init")
STEPS = re.findall(r"^(?:([abc])\$|  ) (lrq .*?)(?: +#.*)?$", FOUNDING, re.MULTILINE)
#: The provider beside the leader.
(PROVIDE,) = take(__name__, "docs/running-a-ring.md", "", begin=r"a\$ lrq provide")


@pytest.fixture
def machines() -> Iterator[Path]:
    # A Unix socket needs a short path.
    with tempfile.TemporaryDirectory(prefix="ring") as folder:
        for rank, member in enumerate(MEMBERS):
            (Path(folder) / member).mkdir()
            (Path(folder) / member / "lrq.toml").write_text(settings(Path(folder), member, rank))
        yield Path(folder)


def settings(folder: Path, member: str, rank: int) -> str:
    """Return the settings of the page for one member: without TLS, and with the places of this test."""
    text = re.sub(r'"tls://(\w)\.paris\.example:7400"', rf'"ipc://{folder}/\1.socket"', ONE)
    text = re.sub(r"^listen = .*$", f'listen = ["ipc://{folder}/{member}.socket"]', text, flags=re.MULTILINE)
    text = re.sub(r"^tls_.*\n", "", text, flags=re.MULTILINE).replace("rank = 0", f"rank = {rank}")
    places = {"sqlite:////var/lib/lrq": "sqlite://", "/mnt/other-disk": str(folder / member)}
    for there, here in {**places, "tls://tokyo": "tcp://tokyo"}.items():
        text = text.replace(there, here)
    return text


@pytest.fixture
def terminal(machines: Path) -> Iterator[Terminal]:
    opened = Terminal(machines)
    yield opened
    opened.close()


def test_the_commands_of_the_page_found_a_ring_and_provide_snapshots(terminal: Terminal, machines: Path):
    founding = [(member, command) for member, command in STEPS if member]
    serve, status = [command for member, command in STEPS if not member]
    assert [member for member, _ in founding] == list(MEMBERS)
    key = "KEY"
    for member, command in founding:
        printed, code = terminal.type(f"cd {member}; {command.replace('KEY', key)}; cd ..")
        assert code == 0, printed
        if key == "KEY":
            (key,) = re.findall(r"lrq ring init --key (\S+)$", printed[-1])
    for member in MEMBERS:
        terminal.type(f"(cd {member}; {serve} >out 2>log &)")
    eventually(lambda: terminal.type(f"(cd b; {status})")[1] == 0, timeout=120)
    (machines / "a" / "meters.py").write_text("def state(context): ...\n")
    terminal.type(f"(cd a; {PROVIDE.strip().removeprefix('a$ ')} >>provide 2>log &)")
    eventually(lambda: terminal.type("grep 'provides snapshots of policy' a/provide")[1] == 0, timeout=120)
