"""What is installed from a wheel, without a checkout, works."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import lrq

ROOT = Path(lrq.__file__).parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the checkout and unpack it; give the folder."""
    source = tmp_path_factory.mktemp("source")
    for name in (*lrq.PACKAGES, "alembic"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "lrq.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run([*build, "--no-index", "--disable-pip-version-check"], cwd=source, check=True, timeout=100)
    (wheel,) = (source / "dist").glob("lrq-*.whl")
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(code: str, installed: Path, folder: Path) -> str:
    """Run *code* in a Python of its own that finds lrq only as *installed*; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_it_holds_the_packages_and_nothing_else(installed: Path):
    expected = {*lrq.PACKAGES, "lrq.py"}
    assert {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")} == expected


def test_every_module_of_the_checkout_is_in_it(installed: Path):
    modules = {path.relative_to(ROOT) for name in lrq.PACKAGES for path in (ROOT / name).rglob("*.py*")}
    modules = {path for path in modules if path.suffix in (".py", ".pyi")}
    assert sorted(path for path in modules if not (installed / path).exists()) == []
    assert all((installed / name / "py.typed").exists() for name in lrq.PACKAGES)


def test_it_migrates_a_database(installed: Path, tmp_path: Path):
    code = (
        "import queues; from queues import migrate\n"
        "engine = queues.create_engine('sqlite:///paris.db')\n"
        "queues.initialize(engine, site_id='paris')\n"
        "print(queues.__file__, migrate.check(engine).site_id)\n"
    )
    assert run(code, installed, tmp_path).split() == [str(installed / "queues" / "__init__.py"), "paris"]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_it_prints_the_sql(dialect: str, installed: Path, tmp_path: Path):
    code = f"from queues import migrate; print(migrate.ddl({dialect!r}))"
    assert "CREATE TABLE lrq_site" in run(code, installed, tmp_path)
