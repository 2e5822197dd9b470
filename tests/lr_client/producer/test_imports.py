"""A producer needs no database library, and names the extra that it does need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lr_client.producer.small_server import SmallServer

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]

USE = """
import asyncio, sys, lrq
with lrq.Producer(sys.argv[1], client="meters", producer="meter-17") as producer:
    producer.send([(b"1", ["tokyo"])])
async def main():
    async with lrq.AsyncProducer(sys.argv[1], client="meters", producer="meter-17") as producer:
        await producer.send([(b"2", ["tokyo"])])
asyncio.run(main())
others = {"sqlalchemy", "alembic", "psycopg", "apscheduler", "sqlite3", "zstandard", "lr_server", "pydantic"}
print(sorted(others & {name.partition(".")[0] for name in sys.modules}))
"""

WITHOUT = """
import sys
from importlib import import_module
library, module = sys.argv[1:]
sys.modules[library] = None  # as if the library were not installed
from queues.errors import MissingDependencyError
try:
    import_module(module)
except MissingDependencyError as error:
    print(error)
"""

MISSING = """
import sys
from importlib import util
find = util.find_spec
util.find_spec = lambda name, package=None: None if name == "grpc" else find(name, package)
import lrq
try:
    lrq.Producer
except lrq.MissingDependencyError as error:
    print(error)
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_producer_loads_no_library_of_a_database():
    server = SmallServer()
    done = run(USE, server.endpoint)
    server.stop()
    assert (done.stdout, done.stderr) == ("[]\n", "")
    assert server.log.payloads() == [b"1", b"2"]


def test_without_grpc_one_sentence_names_the_extra():
    done = run(MISSING)
    assert (done.stdout, done.stderr) == ("a producer needs grpc: run `pip install 'lrq[producer]'`\n", "")


@pytest.mark.parametrize(
    ("library", "module", "sentence"),
    [
        ("django", "lrq.contrib.django", "lrq.contrib.django needs django: run `pip install 'django>=5.2,<6'`"),
        ("grpc", "sink.transport", "the way to other sites needs grpc: run `pip install 'lrq[server]'`"),
        ("pytest", "lrq.testing.plugin", "the plugin lrq.testing.plugin needs pytest: run `pip install 'pytest>=8.3'`"),
    ],
)
def test_without_a_library_one_sentence_names_its_command_of_pip(library, module, sentence):
    done = run(WITHOUT, library, module)
    assert (done.stdout, done.stderr) == (f"{sentence}\n", "")
