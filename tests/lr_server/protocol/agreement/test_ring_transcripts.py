"""The machines of three members write the scenarios in `transcripts/` word for word."""

import os
from pathlib import Path

import pytest

from tests.lr_server.protocol.agreement.transcript import run

FILES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_members_write_the_transcript(path: Path):
    written = run(path.read_text())
    if os.environ.get("LRQ_WRITE_TRANSCRIPTS"):
        path.write_text(written)
    assert path.read_text() == written


def test_a_changed_transcript_is_noticed():
    text = FILES[0].read_text()
    assert run(text.replace("\n  ", "\n  not ", 1)) == text
    assert run(text) != text.replace("\n  ", "\n  not ", 1)
