"""The wheel works without a checkout."""

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import lrq_packages

ROOT = Path(lrq_packages.__file__).parent


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the wheel; return the folder."""
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(code: str, installed: Path, folder: Path) -> str:
    """Run *code* in a new Python process that finds lrq only in *installed*; return its output."""
    done = outcome(code, [installed], folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def outcome(code: str, path: Sequence[Path], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_wheel_holds_only_the_packages_of_lrq(installed: Path):
    expected = {*lrq_packages.PACKAGES, "lrq_packages.py"}
    assert {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")} == expected


def test_every_module_and_file_of_the_pages_is_in_the_wheel(installed: Path):
    modules = {path.relative_to(ROOT) for name in lrq_packages.PACKAGES for path in (ROOT / name).rglob("*.py*")}
    modules = {path for path in modules if path.suffix in (".py", ".pyi")}
    modules |= {path.relative_to(ROOT) for path in (ROOT / "lrq").rglob("*.html")}
    modules |= {path.relative_to(ROOT) for path in (ROOT / "lrq" / "console" / "static").iterdir()}
    assert sorted(path for path in modules if not (installed / path).exists()) == []
    assert all((installed / name / "py.typed").exists() for name in lrq_packages.PACKAGES)


def test_an_installed_wheel_migrates_a_database(installed: Path, tmp_path: Path):
    code = (
        "import queues; from queues.database import migrations\n"
        "engine = queues.create_engine('sqlite:///paris.db')\n"
        "queues.initialize(engine, site_id='paris')\n"
        "print(queues.__file__, migrations.check(engine).site_id)\n"
    )
    assert run(code, installed, tmp_path).split() == [str(installed / "queues" / "__init__.py"), "paris"]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_an_installed_wheel_prints_the_sql(dialect: str, installed: Path, tmp_path: Path):
    code = f"from queues.database import migrations; print(migrations.ddl({dialect!r}))"
    assert "CREATE TABLE lrq_site" in run(code, installed, tmp_path)


class Environment:
    """A new virtual environment, in which pip installs wheels without a network."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self._python = folder / "bin" / "python"
        (self.packages,) = folder.glob("lib/python*/site-packages")

    def pip(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", self._python, "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, *arguments], check=True, timeout=100)

    def install(self, wheel: Path) -> None:
        self.pip("install", "--no-index", "--no-deps", wheel)

    def outcome(self, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run *code* with the packages of this environment, then the libraries of the tests."""
        return outcome(code, [self.packages], folder)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


@pytest.fixture
def other_queues(tmp_path: Path) -> Path:
    """Make the wheel of a foreign distribution `queues`, with modules of the same names as lrq's."""
    path = tmp_path / "queues-9.0-py3-none-any.whl"
    about = "queues-9.0.dist-info"
    files = {
        "queues/__init__.py": "class Queue: ...\n",
        "queues/errors.py": "class Full(Exception): ...\n",
        "queues/disk.py": "",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: queues\nVersion: 9.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(name, content)
    return path


USE = (
    "import lr_client, queues\n"
    "engine = queues.create_engine('sqlite:///paris.db')\n"
    "queues.initialize(engine, site_id='paris')\n"
    "print(queues.__file__)\n"
)


def test_lrq_works_if_a_foreign_queues_was_installed_before_it(
    wheel: Path, other_queues: Path, environment: Environment, tmp_path: Path
):
    environment.install(other_queues)
    environment.install(wheel)
    done = environment.outcome(USE, tmp_path)
    assert done.stdout.strip() == str(environment.packages / "queues" / "__init__.py"), done.stderr


def test_a_foreign_queues_that_is_installed_after_lrq_is_named(
    wheel: Path, other_queues: Path, environment: Environment, tmp_path: Path
):
    environment.install(wheel)
    environment.install(other_queues)
    done = environment.outcome(USE, tmp_path)
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith("ImportError: lrq needs its own package 'queues'")
    assert str(environment.packages / "queues" / "__init__.py") in sentence
    assert sentence.endswith(
        "uninstall the distribution that brought that file, then install lrq again, with pip's option --force-reinstall"
    )


def test_the_command_in_the_error_repairs_the_clash(
    wheel: Path, other_queues: Path, environment: Environment, tmp_path: Path
):
    environment.install(wheel)
    environment.install(other_queues)
    environment.pip("uninstall", "--yes", "queues")
    sentence = environment.outcome(USE, tmp_path).stderr.splitlines()[-1]
    missing = environment.packages / "queues" / "__init__.py"
    assert sentence.startswith(f"ImportError: lrq is not completely installed, {missing} is missing: install lrq again")
    environment.pip("install", "--no-index", "--no-deps", "--force-reinstall", wheel)
    assert environment.outcome(USE, tmp_path).stdout.strip() == str(missing)
