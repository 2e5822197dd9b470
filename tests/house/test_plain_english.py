"""Each sentence has a noun as its subject, stands alone and has at most 20 words (CONTRIBUTING.md)."""

import subprocess
from pathlib import Path

import pytest

from tests.house.prose import offences

ROOT = Path(__file__).parents[2]


def pages() -> list[Path]:
    """Return each file of lrq that holds prose; wire code and the benchmark's report are generated."""
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    generated = ("queues/wire/", "docs/benchmarks.md")
    return [ROOT / name for name in listed.stdout.split() if not name.startswith(generated)]


def test_each_sentence_is_read_once():
    found = [one for path in pages() for one in offences(path.relative_to(ROOT), path.read_text())]
    assert not found, "\n".join(f"{one.path}:{one.line}: {one.rule}: {one.text}" for one in found)


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("Return what doubts the sessions of a call.", "says 'what' instead of a noun"),
        ("A server tells whoever transmits.", "says 'whoever' instead of a noun"),
        ("It ends the wait.", "begins with 'It': name the thing"),
        ("Word" + " word" * 20 + ".", "has 21 words"),
    ],
)
def test_an_offender_is_found(sentence: str, rule: str):
    code = f'"""A page. {sentence}"""\n# {sentence}\nraise TrimmedError("{sentence}")\n'
    assert [one.rule for one in offences(Path("page.py"), code)] == [rule] * 3
    assert [one.rule for one in offences(Path("page.md"), f"# Title\n\nA page. {sentence}\n")] == [rule]


def test_a_plain_sentence_is_no_offender():
    code = '"""Wake an idle server with NOTIFY; transactions pay for the call only while the server sleeps."""\n'
    assert list(offences(Path("page.py"), code)) == []


def test_the_name_of_a_test_is_a_sentence():
    code = "def test_nobody_tells_who_is_awake(): ...\n"
    assert [one.rule for one in offences(Path("test_page.py"), code)] == ["says 'nobody' instead of a noun"]
