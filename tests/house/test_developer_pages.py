"""The commands of CONTRIBUTING.md are right, and those of `make` and of the mutants on other pages too."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.run import arguments
from tests.house.page_blocks import ROOT, take

PYTHON = ".venv/bin/python"
MAKE = [
    block
    for page in ("README.md", "CONTRIBUTING.md", "docs/faults.md")
    for block in take(__name__, page, "", begin="make ")
]
PARTS, (SHOWN,) = (take(__name__, "CONTRIBUTING.md", "", begin=begin) for begin in (f"{PYTHON} -m pytest", r"\$ "))
(MIGRATION,) = take(__name__, "CONTRIBUTING.md", "sh")
(PROSE,) = take(__name__, "CONTRIBUTING.md", "", begin=f"{PYTHON} -c")
LINES = [
    words for block in (*MAKE, *PARTS) for line in block.splitlines() if (words := shlex.split(line, comments=True))
]


def run(command: str | list[str], folder: Path = ROOT, **variables: str) -> str:
    """Run a command with the programs of this environment; return its output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LRQ_", "PYTHON", "PYTEST"))}
    programs = f"{Path(sys.executable).parent}/"
    words = ["bash", "-ec", command.replace(".venv/bin/", programs)] if isinstance(command, str) else command
    done = subprocess.run(words, cwd=folder, env=clean | variables, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [words for words in LINES if words[0] == "make"], ids=" ".join)
def test_make_accepts_a_line_of_the_pages(words: list[str]):
    would_run = run(["make", "--dry-run", *words[1:]])
    for line in re.findall(r"-m tests\.faults\.run (.*)", would_run):
        assert arguments(shlex.split(line)).seed == 7


def test_the_mutant_that_a_page_names_exists():
    named = [words[3:] for words in LINES if words[1:3] == ["-m", "tests.faults.mutants"]]
    assert len(named) == 1
    assert [name for (name,) in named if not (ROOT / "tests" / "faults" / "mutants" / f"{name}.patch").exists()] == []


@pytest.mark.long
def test_each_command_for_a_part_of_the_tests_selects_tests():
    (module, *chosen) = [words for words in LINES if words[1:3] == ["-m", "pytest"]]
    assert (ROOT / module[-1]).is_dir()
    for words in chosen:
        # Pytest ends with an error where no test is selected.
        run([sys.executable, *words[1:], "--collect-only", "-qq"])


@pytest.mark.long
def test_the_shown_command_selects_the_shown_test_only():
    command, _, output = SHOWN.removeprefix("$ ").partition("\n")
    (test,) = re.findall(r"^(\S+) PASSED", output, re.MULTILINE)
    words = [word for word in shlex.split(command)[1:] if word != "-v"]
    selected = run([sys.executable, *words, "--collect-only", "-q"])
    assert re.findall(r"^tests/\S+::\S+$", selected, re.MULTILINE) == [test]


@pytest.mark.long
def test_the_commands_for_a_migration_make_an_empty_one_after_the_newest(tmp_path: Path):
    shutil.copytree(ROOT / "alembic", tmp_path / "alembic", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    there = set((tmp_path / "alembic" / "versions").iterdir())
    run(MIGRATION, tmp_path)
    made = set((tmp_path / "alembic" / "versions").glob("*.py")) - there
    assert [file.name for file in made] == [max(file.name for file in made | there)]
    assert re.findall(r"^    (?!#)(.+)$", made.pop().read_text(), re.MULTILINE) == ["pass", "pass"]


def test_the_command_for_plain_english_lists_the_offenders(tmp_path: Path):
    (tmp_path / "queues").mkdir()
    (tmp_path / "queues" / "one.py").write_text('"""Nobody reads it."""\n')
    assert "Nobody" in run(PROSE, tmp_path, PYTHONPATH=str(ROOT))
    assert run(PROSE) == ""
