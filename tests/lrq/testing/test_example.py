"""The example of a tested application, and the page about testing, work as they are printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.page_blocks import take

pytestmark = [pytest.mark.processes, pytest.mark.long]

ROOT = Path(__file__).parents[3]
RECIPES = take(__name__, "docs/testing.md", "python")
(OPTIONS,) = take(__name__, "docs/testing.md", "ini")


def run(folder: Path, *arguments: str) -> str:
    """Run pytest in *folder* with the plugin of this checkout; return its output."""
    plugins = ("-p", "no:lrq", "-p", "lrq.testing.plugin", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *plugins, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tests_of_the_example_pass():
    assert "6 passed" in run(ROOT / "examples" / "testing")


def test_the_recipes_of_the_page_work(tmp_path: Path):
    recipes = "\n\n".join(RECIPES)
    (tmp_path / "pytest.ini").write_text(OPTIONS)
    (tmp_path / "test_page.py").write_text(recipes)
    assert f"{recipes.count('def test_')} passed" in run(tmp_path)
