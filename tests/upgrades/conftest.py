"""The version before, built from this project's history."""

import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.upgrades.versions import BEFORE, ROOT, Version


@pytest.fixture(scope="session")
def wheel_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of the version before and unpack it; give the folder."""
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() != b"false":
        pytest.skip("this copy has no history with the version before: git fetch --unshallow")
    archive = _git("archive", BEFORE)
    assert archive.returncode == 0, archive.stderr
    source, folder = (tmp_path_factory.mktemp(name) for name in ("source", "before"))
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(source, filter="data")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run([*build, "--no-index", "--disable-pip-version-check"], cwd=source, check=True, timeout=100)
    (built,) = (source / "dist").glob("lrq-*.whl")
    with zipfile.ZipFile(built) as packed:
        packed.extractall(folder)
    return folder


@pytest.fixture
def before(wheel_before: Path, tmp_path: Path) -> Version:
    """Give the version before."""
    return Version(wheel_before, _logs(tmp_path))


@pytest.fixture
def now(tmp_path: Path) -> Version:
    """Give the version of this checkout."""
    return Version(ROOT, _logs(tmp_path))


def _git(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)


def _logs(folder: Path) -> Path:
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    return logs
