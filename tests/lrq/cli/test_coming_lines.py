"""The lines of a file or pipe, as `lrq produce` reads them."""

import io
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest

from lrq.cli.coming_lines import NoLineYet, coming_lines

LONGEST = 200_000


@pytest.fixture
def pipe() -> Iterator[tuple[int, IO[bytes]]]:
    read, write = os.pipe()
    with open(read, "rb") as source:
        yield write, source


def written(pipe: tuple[int, IO[bytes]], *parts: bytes) -> list[bytes]:
    """Return the lines that are read while *parts* are written, each once the part before is read."""
    write, source = pipe
    waiting, found = list(parts), []
    for line in coming_lines(source, LONGEST):
        if not isinstance(line, NoLineYet):
            found.append(line)
        elif waiting:
            os.write(write, waiting.pop(0))
        else:
            os.close(write)
    return found


def test_lines_arrive_in_any_parts(pipe: tuple[int, IO[bytes]]):
    assert written(pipe, b"one\ntw", b"o\n", b"\n\nla", b"st") == [b"one\n", b"two\n", b"\n", b"\n", b"last"]


def test_an_ended_pipe_has_no_further_line(pipe: tuple[int, IO[bytes]]):
    assert written(pipe, b"one\n") == [b"one\n"]


def test_of_a_line_above_the_limit_only_the_beginning_is_read(pipe: tuple[int, IO[bytes]]):
    (line,) = written(pipe, *[b"x" * 50_000] * 5, b"\nnever")
    assert LONGEST < len(line) <= LONGEST + 65_536


def test_a_line_may_be_longer_than_one_read(pipe: tuple[int, IO[bytes]]):
    assert written(pipe, *[b"x" * 50_000] * 3, b"\ny\n") == [b"x" * 150_000 + b"\n", b"y\n"]


def test_a_pipe_that_does_not_block_ends_with_its_writer_only(pipe: tuple[int, IO[bytes]]):
    os.set_blocking(pipe[1].fileno(), False)
    assert written(pipe, b"one\n", b"two\n") == [b"one\n", b"two\n"]


def test_a_file_is_never_quiet(tmp_path: Path):
    (tmp_path / "lines").write_bytes(b"one\n\ntwo")
    with closing((tmp_path / "lines").open("rb")) as source:
        assert [*coming_lines(source, LONGEST)] == [*coming_lines(io.BytesIO(b"one\n\ntwo"), LONGEST)]
