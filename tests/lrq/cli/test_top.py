"""`lrq top`: one frame for a pipe, a live view on a terminal."""

import os
import pty
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import text

from tests.lrq.cli.command import Command, spawn
from tests.lrq.cli.source import SourceSite
from tests.waiting import eventually


class Terminal:
    """A process in a new pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        self._own, other = pty.openpty()
        environment = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
        self.process = spawn(
            *arguments, stdin=other, stdout=other, stderr=other, env=environment, start_new_session=True
        )
        os.close(other)
        self._seen = b""

    def shows(self, words: str) -> bool:
        """Return whether *words* were shown since the last `press`."""
        while select.select([self._own], [], [], 0)[0]:
            try:
                self._seen += os.read(self._own, 65536)
            except OSError:  # Linux: the process has closed its side
                break
        return words.encode() in self._seen

    def press(self, keys: bytes) -> None:
        self._seen = b""
        os.write(self._own, keys)

    def hang_up(self) -> None:
        """End the terminal beneath the process, which gets no signal: the terminal does not control it."""
        os.close(self._own)
        self._own = -1

    def close(self) -> None:
        self.process.kill()
        self.process.wait(30)
        if self._own >= 0:
            os.close(self._own)


@pytest.fixture
def watched(source: SourceSite) -> Iterator[Terminal]:
    """Give a terminal that runs `lrq top` on the site."""
    with on_a_terminal("top", "--database", source.url, "--interval", "0.1") as terminal:
        yield terminal


@contextmanager
def on_a_terminal(*arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(*arguments)
    try:
        yield terminal
    finally:
        terminal.close()


def test_one_frame_is_printed_to_a_pipe(lrq: Command, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    done = lrq("top", "--database", source.url)
    assert done.code == 0
    assert "/s" in done.out
    assert done.out.count("Sessions") == 1


@pytest.mark.processes
def test_top_follows_changes_and_ends_with_q(watched: Terminal, source: SourceSite):
    eventually(lambda: watched.shows("no server works for this site"))
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    eventually(lambda: watched.shows("tokyo"))
    watched.press(b"q")
    assert watched.process.wait(20) == 0


@pytest.mark.processes
def test_top_ends_with_ctrl_c(watched: Terminal):
    eventually(lambda: watched.shows("q to quit"))
    watched.process.send_signal(signal.SIGINT)
    assert watched.process.wait(20) == 130
    assert not watched.shows("Traceback")


@pytest.mark.processes
def test_top_ends_with_its_terminal(watched: Terminal):
    eventually(lambda: watched.shows("q to quit"))
    watched.hang_up()
    watched.process.wait(20)


@pytest.mark.processes
def test_once_prints_one_frame(source: SourceSite):
    with on_a_terminal("top", "--once", "--database", source.url) as terminal:
        eventually(lambda: terminal.shows("no server works for this site"))
        assert terminal.process.wait(20) == 0


@pytest.mark.processes
@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_top_tells_the_age_of_its_figures_while_the_database_does_not_answer(watched: Terminal, source: SourceSite):
    eventually(lambda: watched.shows("no server works for this site"))
    with source.engine.connect() as connection, connection.begin():
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = '60s'"))
        connection.execute(text("LOCK TABLE lrq_sessions IN ACCESS EXCLUSIVE MODE"))
        eventually(lambda: watched.shows("the database has not answered for") and watched.shows("these figures are"))
        watched.press(b"q")
        assert watched.process.wait(20) == 0
