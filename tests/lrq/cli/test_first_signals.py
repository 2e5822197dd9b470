"""Signals that come while the libraries of a command load."""

import shutil
import signal
import subprocess
import sys

import pytest

from tests.lrq.cli.command import ROOT

#: Sends the signal of the first argument to this process as soon as its first library loads.
_SIGNALLED = """
import os, sys

class Signaller:
    def find_spec(self, name, *_):
        if name == "queues.errors":
            os.kill(os.getpid(), int(number))

number = sys.argv.pop(1)
sys.meta_path.insert(0, Signaller())
from lrq.__main__ import main
main()
"""

_READ_AGAIN = """
import os, signal
from lrq.cli.process.first_signals import take_first_signals
take_first_signals(["serve"])
os.kill(os.getpid(), signal.SIGHUP)
from lrq.cli.process.server_signals import ServerSignals

def reload():
    print("read again", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

ServerSignals().serve(reload)
"""


def _run(*command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)


def _signalled(number: signal.Signals, *arguments: str) -> tuple[str, ...]:
    return sys.executable, "-c", _SIGNALLED, str(int(number)), *arguments


@pytest.mark.parametrize("arguments", [("serve",), ("--debug", "serve")])
def test_sighup_does_not_end_a_server_whose_libraries_load(arguments: tuple[str, ...]):
    done = _run(*_signalled(signal.SIGHUP, *arguments, "--help"))
    assert (done.returncode, b"Usage: lrq serve" in done.stdout) == (0, True), done.stderr.decode()


def test_sighup_ends_another_command_whose_libraries_load():
    assert _run(*_signalled(signal.SIGHUP, "send", "serve", "--help")).returncode == -signal.SIGHUP


def test_the_peers_are_read_again_after_a_sighup_that_came_too_early():
    done = _run(sys.executable, "-c", _READ_AGAIN)
    assert (done.returncode, done.stdout) == (0, b"read again\n"), done.stderr.decode()


def test_sigterm_ends_the_first_process_of_a_container_whose_libraries_load():
    container = ("unshare", "--user", "--map-root-user", "--pid", "--fork")
    if shutil.which("unshare") is None or _run(*container, "true").returncode:
        pytest.skip("this system makes no container")
    done = _run(*container, *_signalled(signal.SIGTERM, "serve", "--help"))
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, b""), done.stderr.decode()
