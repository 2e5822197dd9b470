"""From outside: the wheel in an empty environment, with the libraries that an application needs and no others."""

from pathlib import Path

import pytest

from tests.house.light import Light

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(400)]

#: Libraries of the server, the command line, Spark and PostgreSQL, as modules.
OTHERS = ("grpc", "pydantic", "prometheus_client", "psutil", "typer", "rich", "structlog", "pyspark", "psycopg")
#: The most bytes of an environment of a sender, without pip.
MOST_BYTES = 68 * 1024 * 1024

SEND = """
import lrq, importlib.util
engine = lrq.create_engine("sqlite:///paris.db")
lrq.initialize(engine, site_id="paris")
client = lrq.RoutingQueueSenderClient("policy")
with engine.begin() as connection:
    token = client.transmit_log_entry_message(connection, b"rule 1", ["tokyo"], item_key="1")
print(token.site, [name for name in {others!r} if importlib.util.find_spec(name)])
try:
    lrq.LogReplicationServer
except lrq.MissingDependencyError as missing:
    print(missing)
"""


@pytest.fixture(scope="module")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Light:
    return Light(tmp_path_factory.mktemp("light") / "environment", wheel)


def test_a_sender_works_without_the_libraries_of_the_server_and_the_command_line(light: Light, tmp_path: Path):
    done = light.run("python", "-c", SEND.format(others=OTHERS), folder=tmp_path)
    assert done.stdout.splitlines() == [
        "paris []",
        "the server needs grpc, grpc_health, pydantic_settings, prometheus_client, psutil: "
        "run `pip install 'lrq[server]'`",
    ], done.stderr


def test_the_command_says_which_extra_it_needs(light: Light, tmp_path: Path):
    done = light.run("lrq", "status", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("lrq: the command line needs typer, ")
    assert done.stderr.endswith(": run `pip install 'lrq[cli]'`\n")
    assert light.run("python", "-m", "lrq", "status", folder=tmp_path).stderr == done.stderr


def test_pip_finds_no_conflict_in_the_environment_of_a_sender(light: Light):
    assert light.pip("check") == ""


def test_the_environment_of_a_sender_is_small(light: Light):
    assert sum(path.stat().st_size for path in light.folder.rglob("*") if path.is_file()) < MOST_BYTES
