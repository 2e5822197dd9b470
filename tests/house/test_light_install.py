"""From outside: the wheel in an empty environment, with the libraries that an application needs and no others."""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(400)]

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Libraries of the server, the command line, Spark and PostgreSQL, as modules.
OTHERS = ("grpc", "pydantic", "prometheus_client", "typer", "rich", "structlog", "pyspark", "psycopg")
#: The most bytes of an environment of a sender, without pip.
MOST_BYTES = 64 * 1024 * 1024

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


def clean() -> dict[str, str]:
    """Return the variables of this process without those by which Python would find this checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LRQ_"))}


class Light:
    """An environment with the wheel and its dependencies only."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        venv.create(folder, symlinks=True)
        self.pip("install", wheel)

    def pip(self, *arguments: str | Path) -> str:
        command = [sys.executable, "-m", "pip", "--python", self.folder / "bin" / "python"]
        done = subprocess.run(
            [*command, "--disable-pip-version-check", "--quiet", *arguments],
            env=clean(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        command = [self.folder / "bin" / program, *arguments]
        return subprocess.run(
            command, cwd=folder, env=clean(), capture_output=True, text=True, timeout=100, check=False
        )


@pytest.fixture(scope="module")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Light:
    return Light(tmp_path_factory.mktemp("light") / "environment", wheel)


def test_a_sender_works_without_the_libraries_of_the_server_and_the_command_line(light: Light, tmp_path: Path):
    done = light.run("python", "-c", SEND.format(others=OTHERS), folder=tmp_path)
    assert done.stdout.splitlines() == [
        "paris []",
        "the server needs grpc, pydantic_settings, prometheus_client: run `pip install 'lrq[server]'`",
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


@pytest.fixture(scope="module")
def applications(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Light:
    """Give an environment with the libraries that the examples name, and a copy of the examples beside it."""
    folder = tmp_path_factory.mktemp("applications")
    shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    made = Light(folder / "environment", wheel)
    made.pip("install", f"{wheel}[cli]", "pytest", "django>=5.2,<6")
    return made


def test_the_example_of_tests_passes_with_the_plugin_of_the_wheel(applications: Light):
    done = applications.run("python", "-m", "pytest", "-q", folder=applications.folder.parent / "examples" / "testing")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ passed", done.stdout.splitlines()[-1])


def test_the_example_of_django_works_with_the_wheel(applications: Light):
    folder = applications.folder.parent / "examples" / "django"

    def manage(*words: str) -> str:
        return applications.run("python", "manage.py", *words, folder=folder).stdout

    assert "Applying lrq" in manage("migrate")
    assert manage("order", "bread", "2") == "order 1: 2 bread\n"
    status = applications.run("lrq", "browse", "--database", "sqlite:///north.db", "--json", folder=folder)
    assert '"orders"' in status.stdout, status.stderr
