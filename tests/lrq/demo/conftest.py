"""The command `lrq demo` as a real process, with a folder for temporary files."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

Demonstrate = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Give a folder for temporary files; its name is short, so that paths of sockets fit."""
    with tempfile.TemporaryDirectory(prefix="lrq-") as folder:
        yield Path(folder)


@pytest.fixture
def demonstrate(temporary: Path) -> Iterator[Demonstrate]:
    """Give a function that starts `lrq demo` with options and environment variables."""
    with ExitStack() as stack:

        def start(*options: str, **environment: str) -> "subprocess.Popen[str]":
            process = subprocess.Popen(
                [sys.executable, "-m", "lrq.cli.main", "demo", *options],
                env={**os.environ, "TMPDIR": str(temporary), **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start
