"""The wheel of this checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lrq_packages

ROOT = Path(lrq_packages.__file__).parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the checkout."""
    source = tmp_path_factory.mktemp("source")
    for name in (*lrq_packages.PACKAGES, "alembic"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "lrq_packages.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run([*build, "--no-index", "--disable-pip-version-check"], cwd=source, check=True, timeout=100)
    (built,) = (source / "dist").glob("lrq-*.whl")
    return built
