"""The pages of the examples for Django and FastAPI: their commands, in order, do as the pages say."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.house.page_blocks import take
from tests.house.page_programs import web_client
from tests.house.test_typed_pages import Terminal, with_free_ports
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(480)]

EXAMPLES = Path(__file__).parents[2] / "examples"
#: The only block of each page.
BLOCKS = {name: take(__name__, f"examples/{name}/README.md", "sh") for name in ("django", "fastapi")}


def commands(name: str) -> list[str]:
    """Return the commands of the page of an example, with free ports and without the installation."""
    (block,) = BLOCKS[name]
    lines = with_free_ports(block.replace("8000", "7400")).splitlines()
    return [line for line in lines if line and not line.startswith(("#", "pip install "))]


@pytest.fixture
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    folder = shutil.copytree(EXAMPLES / request.param, tmp_path / "example")
    with closing(Terminal(folder, *web_client(tmp_path))) as opened:
        yield opened


@pytest.mark.parametrize("terminal", ["django"], indirect=True)
def test_the_shop_in_django_does_as_its_page_says(terminal: Terminal):
    *steps, stock = commands("django")
    refused = [step for step in steps if terminal.type(step)[1]]
    assert [step.split("#")[1].split(",")[0].strip() for step in refused] == ["refused"]
    shown = stock.split("#")[1].strip()
    eventually(lambda: shown in terminal.type(stock)[0], timeout=120)


@pytest.mark.nightly
@pytest.mark.parametrize("terminal", ["fastapi"], indirect=True)
def test_the_orders_with_fastapi_do_as_their_page_says(terminal: Terminal):
    *steps, first, second = commands("fastapi")
    for step in steps:
        assert terminal.type(step)[1] == 0, step
    # An answer ends without a newline.
    assert '{"order":1}' in "".join(terminal.type(f"{first}; echo")[0])
    answer = "".join(terminal.type(f"{second} -w '%{{http_code}}'; echo")[0])
    assert "422" in answer
    assert '{"order":' not in answer
    look = "import sqlite3; print(sqlite3.connect('office.db').execute('SELECT quantity FROM stock').fetchall())"
    eventually(lambda: "[(-2,)]" in terminal.type(f'python -c "{look}"')[0], timeout=120)
