"""One server of Spark Connect for all tests of a process, and clients of it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.lr_client.spark.connect.server import connect_server
from tests.lr_client.spark.faults.jvm import HOUSE, process

#: Starts a module with arguments, as a client without Java.
Client = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="session")
def python_path() -> str:
    """Give the value of `PYTHONPATH` for a client, and for a server that runs functions of `foreachBatch`."""
    packages = os.environ.get("LRQ_TEST_CONNECT", "")
    if not packages:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "no packages of Spark Connect: run tools/ensure_connect.sh"
        )
    return f"{HOUSE}:{packages}"


@pytest.fixture(scope="session")
def remote(python_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect"), python_path) as address:
        yield address


@pytest.fixture
def client(remote: str, python_path: str, site: Engine, tmp_path: Path) -> Iterator[Client]:
    variables = {"PYTHONPATH": python_path, "SPARK_REMOTE": remote, "JAVA_HOME": "", "PATH": ""}
    url = site.url.render_as_string(hide_password=False)
    with ExitStack() as running:

        def start(module: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", module, url, str(tmp_path)]
            return running.enter_context(process(command, tmp_path / "client.log", variables))

        yield start
