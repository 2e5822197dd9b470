"""`make test` runs each slow test on one database, and CI tells a failure before the run ends."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
FAILS_FIRST = """
def test_first(): assert "a boom" == ""
def test_second(): pass
"""


def run_pytest(*arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def collected(*arguments: str) -> list[tuple[str, str]]:
    """Return the tests of a file of slow tests, each with its database."""
    found = run_pytest("--collect-only", "-q", "tests/system/test_draining.py", *arguments)
    return re.findall(r"^tests/(.*)\[(sqlite|postgresql)\]$", found, re.MULTILINE)


def test_each_slow_test_runs_on_one_database_and_nightly_on_both():
    both, one = collected(), collected("-m", "not nightly")
    assert set(Counter(name for name, _ in both).values()) == {2}
    assert sorted({name for name, _ in both}) == sorted(name for name, _ in one)
    assert {database for _, database in one} == {"sqlite", "postgresql"}


def test_a_failure_is_told_before_the_next_test(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(
        "from tests.failures import tell_failures_at_once\n"
        "def pytest_sessionstart(session): tell_failures_at_once(session.config)\n"
    )
    (tmp_path / "test_two.py").write_text(FAILS_FIRST)
    told = run_pytest("-v", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path))
    assert told.index("a boom") < told.index("test_second")
