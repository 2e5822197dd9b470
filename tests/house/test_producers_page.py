"""The statements of `docs/producers.md` are true: its programs run against a server, and its commands are right."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import queues
from lr_server import LogReplicationServer, Settings
from tests.house.page_blocks import take

pytestmark = [pytest.mark.long, pytest.mark.processes]

ROOT = Path(__file__).parents[2]
PROGRAMS = take(__name__, "docs/producers.md", "python")
LINES = take(__name__, "docs/producers.md", "")


def run(*command: str, folder: Path, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, input=given, capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_programs_and_commands_of_the_page_run(tmp_path: Path):
    programs = {code.split()[1]: code for code in PROGRAMS}
    commands = [shlex.split(line.partition("| ")[2] or line) for line in LINES]
    assert [command[:2] for command in commands] == [["lrq", "produce"]] * 2
    assert sorted(programs) == ["asynchronous.py", "send.py", "submit.py"]
    url = f"sqlite:///{tmp_path}/paris.db"
    engine = queues.create_engine(url)
    queues.initialize(engine, site_id="paris")
    engine.dispose()
    settings = Settings(
        site_id="paris", database_url=url, listen=["tcp://127.0.0.1:0"], ingest=True, producers={"*": {}}
    )
    (tmp_path / "may.csv").write_text("1\n2\n3\n")
    with LogReplicationServer(settings) as server:
        for name, code in programs.items():
            (tmp_path / name).write_text(code)
        printed = {name: run(name, server.endpoints[0], folder=tmp_path) for name in programs}
        assert printed["send.py"].startswith("1 paris/meters/")
        assert printed["submit.py"] == "1000 1 1000\n"
        assert printed["asynchronous.py"] == "True 100\n"
        lines = []
        for command in commands * 2:
            words = [server.endpoints[0] if word.startswith("tcp://") else word for word in command[1:]]
            done = subprocess.run(
                [sys.executable, "-m", "lrq", *words], cwd=tmp_path, input="21.5\n21.7\n", capture_output=True,
                text=True, timeout=100, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            lines.append([line.split()[0] for line in done.stdout.splitlines()])
    assert lines == [["1", "2"], ["1", "2", "3"], ["1", "2"], []]
