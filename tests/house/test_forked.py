"""A forked process is like one that begins afresh: its program, surroundings, files, parent and end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import Popen

_TELL = """
import json, os, signal, sys, threading
print(json.dumps({
    "arguments": sys.argv, "name": __name__, "path": sys.path[0], "folder": os.getcwd(), "parent": os.getppid(),
    "variables": dict(os.environ), "warnings": sys.warnoptions, "session": os.getsid(0) == os.getpid(),
    "files": sorted(map(int, os.listdir("/proc/self/fd")))[:-1], "threads": threading.active_count(),
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
}))
"""
_VARIABLES = {**os.environ, "LRQ_TEST_SURROUNDINGS": "given"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems start each process afresh")


def told(kind: type["subprocess.Popen[bytes]"], folder: Path, *words: str, **options: object) -> dict[str, object]:
    process = kind(
        [sys.executable, *words], cwd=folder, env=_VARIABLES, stdin=-1, stdout=-1, stderr=-1, **options
    )  # fmt: skip
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    found: dict[str, object] = json.loads(out)
    return found


@pytest.mark.parametrize("options", [{}, {"start_new_session": True}])
@pytest.mark.parametrize("strict", [(), ("-W", "error")])
def test_a_forked_process_has_the_surroundings_of_a_fresh_one(
    tmp_path: Path, strict: tuple[str, ...], options: dict[str, object]
) -> None:
    (tmp_path / "teller.py").write_text(_TELL)
    for program in (("-c", _TELL), ("-m", "teller"), ("teller.py",)):
        words = (*strict, *program, "a", "b c")
        fresh = told(subprocess.Popen, tmp_path, *words, **options)
        assert told(Popen, tmp_path, *words, **options) == fresh
        assert fresh["parent"] == os.getpid()


def test_a_forked_process_has_loaded_lrq() -> None:
    text = "import sys; print('lr_server.server' in sys.modules, 'lrq.cli.main' in sys.modules)"
    process = Popen([sys.executable, "-c", text], stdout=-1, text=True)
    assert process.communicate()[0].split() == ["True", "True"]


def test_the_exit_code_of_a_forked_process_is_its_own() -> None:
    assert Popen([sys.executable, "-c", "import sys; sys.exit(7)"]).wait() == 7
    failed = Popen([sys.executable, "-c", "1 / 0"], stderr=-1, text=True)
    assert failed.communicate()[1].endswith("ZeroDivisionError: division by zero\n")
    assert failed.returncode == 1


def test_a_forked_process_ends_by_a_signal() -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = Popen([sys.executable, "-c", "print('begun', flush=True); input()"], stdin=-1, stdout=-1)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        process.communicate()
        assert process.returncode == -number


def test_a_process_with_other_options_or_another_path_begins_afresh() -> None:
    text = "import sys; print('lr_server' in sys.modules)"
    for words, variables in ((("-P",), {}), ((), {"PYTHONHASHSEED": "3"}), ((), {"PYTHONPATH": "/another"})):
        process = Popen([sys.executable, *words, "-c", text], env={**os.environ, **variables}, stdout=-1, text=True)
        assert process.communicate()[0] == "False\n"
