"""Processes of Python that begin at once: a fork server of this test run makes them (`tests/fork_server.py`).

A test of the start itself, or of other options of Python, takes `subprocess.Popen`. So do the pages to type.
"""

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: Linux: whether the orphans among the descendants of this process become its children.
_PR_SET_CHILD_SUBREAPER = 36


class ForkServer:
    """The fork server of this process; the first request starts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: socket.socket | None = None

    def fork(self, request: dict[str, Any], files: list[int]) -> int:
        """Return the number of a new process, a child of this one; *files* become its files 0, 1 and 2."""
        with self._lock:
            asked = self._asked = self._asked or _start()
            _adopt(orphans=True)
            try:
                socket.send_fds(asked, [json.dumps(request).encode()], files)
                answer = asked.recv(8)
            finally:
                _adopt(orphans=False)
        if not answer:
            raise OSError("the fork server has ended")
        return int.from_bytes(answer, "big")


def _start() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with theirs:
        server = subprocess.Popen([sys.executable, "-m", "tests.fork_server"], stdin=theirs, cwd=ROOT, env=clean)
    atexit.register(server.wait)
    atexit.register(ours.close)
    return ours


def _adopt(*, orphans: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)


_SERVER = ForkServer()


def _options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Python that a process reads once, as the fork server has done."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON") and name != "PYTHONPATH"}


def _is_this_lrq(environment: Mapping[str, str]) -> bool:
    """Whether a process finds the lrq of this folder first, which the fork server has loaded."""
    first, _, _ = environment.get("PYTHONPATH", "").partition(os.pathsep)
    return first in ("", str(ROOT))


def _request(command: Any, environment: dict[str, str]) -> dict[str, Any] | None:
    """Return the program of a command, or None if the command is no module, text or file for this Python."""
    python, *words = map(os.fspath, command)
    strict = words[:2] == ["-W", "error"]
    words = words[2:] if strict else words
    kind, program, *arguments = ["file", *words] if words[0].endswith(".py") else words
    if python != sys.executable or kind not in ("-m", "-c", "file") or sys.platform != "linux":
        return None
    if _options(environment) != _options(os.environ) or not _is_this_lrq(environment):
        return None
    return {
        "strict": strict, "kind": kind, "program": program, "arguments": arguments, "environment": environment
    }  # fmt: skip


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`; a module, a text or a file of Python runs in a fork of the fork server."""

    def __init__(self, args: Any, *, start_new_session: bool = False, **options: Any) -> None:
        self._session = start_new_session
        super().__init__(args, start_new_session=start_new_session, **options)

    # `Popen` makes the pipes before this method and waits for the process of `pid` after it.
    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any,
        startupinfo: Any, creationflags: Any, shell: Any,
        p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int, *rest: Any,
    ) -> None:  # fmt: skip
        pipes = (p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        request = _request(args, dict(os.environ if env is None else env))
        if request is None:
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                *pipes, *rest,
            )  # fmt: skip
            return
        assert not any((executable, preexec_fn, pass_fds, shell))
        request |= {"folder": os.fspath(cwd or os.getcwd()), "session": self._session}
        files = [own if file == -1 else file for own, file in enumerate((p2cread, c2pwrite, errwrite))]
        self.pid = _SERVER.fork(request, files)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
