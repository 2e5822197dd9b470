"""From outside: each example runs with the wheel in an empty environment, with the packages that its README names."""

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from tests.house.light import EXAMPLES, Light, clean, example
from tests.house.page_blocks import take
from tests.received import COUNT, received_payloads
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(500)]

#: The commands of the page: installation, tables, the package for PostgreSQL, the program.
(NODE,) = take(__name__, "examples/node/README.md", "sh")
LISTENS = r"(?<=listens at )tcp://\S+"


@pytest.mark.nightly
def test_the_example_of_tests_passes_with_the_plugin_of_the_wheel(wheel: Path, tmp_path: Path):
    copy = shutil.copytree(EXAMPLES / "testing", tmp_path / "testing", ignore=shutil.ignore_patterns("__pycache__"))
    done = Light(tmp_path / "environment", f"{wheel}[cli]", "pytest").run("python", "-m", "pytest", "-q", folder=copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ passed", done.stdout.splitlines()[-1])


@pytest.mark.nightly
def test_the_example_of_django_works_with_the_wheel(wheel: Path, tmp_path: Path):
    made, folder = example("django", tmp_path, wheel)

    def manage(*words: str) -> str:
        return made.run("python", "manage.py", *words, folder=folder).stdout

    assert "Applying lrq" in manage("migrate")
    assert manage("order", "bread", "2") == "order 1: 2 bread\n"
    status = made.run("lrq", "browse", "--database", "sqlite:///north.db", "--json", folder=folder)
    assert '"orders"' in status.stdout, status.stderr


def order(address: str, quantity: int) -> tuple[int, object]:
    """Post an order of bread; return status and answer."""
    body = json.dumps({"item": "bread", "quantity": quantity}).encode()
    request = urllib.request.Request(f"{address}/orders", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def column(database: Path, statement: str) -> list[object]:
    """Read the first column of a SQLite file; an empty list while the table is missing."""
    with closing(sqlite3.connect(database)) as connection:
        try:
            return [row[0] for row in connection.execute(statement)]
        except sqlite3.OperationalError:
            return []


@pytest.mark.nightly
def test_the_example_of_fastapi_delivers_an_order_with_the_wheel(wheel: Path, tmp_path: Path):
    made, folder = example("fastapi", tmp_path, wheel)

    def stock() -> list[object]:
        return column(folder / "office.db", "SELECT quantity FROM stock WHERE item = 'bread'")

    with ExitStack() as stack:

        def start(program: str, *words: str, until: str) -> str:
            return stack.enter_context(made.running(program, *words, folder=folder)).find(until)

        stack.enter_context(made.running("python", "office.py", "sqlite:///office.db", folder=folder))
        eventually(lambda: column(folder / "office.db", "SELECT name FROM sqlite_master WHERE name = 'stock'"))
        serve = ("serve", "--database", "sqlite:///office.db", "--site", "office", "--listen", "tcp://127.0.0.1:0")
        endpoint = start("lrq", *serve, until=LISTENS)
        address = start("uvicorn", "app:app", "--port", "0", until=r"(?<=running on )http://\S+:\d+")
        peer = ("--peer", f"office={endpoint}")
        start(
            "lrq", "serve", "--database", "sqlite:///north.db", "--site", "north", *peer, until="it only sends|listens"
        )
        assert order(address, 2) == (201, {"order": 1})
        assert order(address, 1000)[0] == 422
        assert order(address, 3)[0] == 201
        eventually(lambda: stock() == [-5], timeout=60)
    assert column(folder / "north.db", "SELECT quantity FROM orders ORDER BY id") == [2, 3]


@pytest.mark.nightly
@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_the_example_of_node_delivers_its_orders_with_the_wheel(
    wheel: Path, tmp_path: Path, new_database: Callable[[], str]
):
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not both installed")
    made, folder = example("node", tmp_path, wheel)
    paris = new_database()
    url = make_url(paris).set(drivername="postgresql").render_as_string(hide_password=False)
    places = {"postgresql+psycopg://owner@localhost/paris": paris, "postgresql://app@localhost/paris": url}

    def typed(line: str) -> subprocess.CompletedProcess[str]:
        for there, here in places.items():
            line = line.replace(there, shlex.quote(here))
        programs = {"PATH": f"{made.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run(
            ["bash", "-c", line], cwd=folder, env=clean() | programs, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip

    # `example` has run the first line, the installation.
    _, create, package, transmit = NODE.splitlines()
    created = typed(create)
    assert created.returncode == 0, created.stderr
    done = typed(package)
    if done.returncode:
        pytest.skip(f"npm cannot install the package pg: {done.stderr[-300:]}")
    printed = typed(transmit)
    assert printed.returncode == 0, printed.stderr
    assert re.findall("is (?:not )?sent", printed.stdout) == ["is sent", "is not sent", "is sent", "is not sent"]
    with ExitStack() as stack:
        peers: list[str] = []
        for site in ("tokyo", "lima"):
            words = (
                "serve",
                "--init",
                "--database",
                f"sqlite:///{site}.db",
                "--site",
                site,
                "--listen",
                "tcp://127.0.0.1:0",
            )
            lines = stack.enter_context(made.running("lrq", *words, folder=folder))
            peers += ["--peer", f"{site}={lines.find(LISTENS)}"]
        stack.enter_context(made.running("lrq", "serve", "--database", paris, "--site", "paris", *peers, folder=folder))
        for site in ("tokyo", "lima"):
            database = folder / f"{site}.db"
            eventually(lambda at=database: column(at, COUNT) == [2], timeout=60)
            engine = create_engine(f"sqlite:///{database}")
            found = received_payloads(engine)
            engine.dispose()
            assert [json.loads(payload)["item"] for payload in found] == ["tea", "büchse 🫖"]
