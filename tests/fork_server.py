"""A process that has loaded lrq and its libraries, and forks processes which begin at once.

A fresh process of Python loads for most of a second. `tests/forked.py` asks for processes on the socket of stdin.
A forked process runs its command as a fresh one does: in `__main__`, with its own environment, folder and files.
"""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from lrq_packages import PACKAGES

#: Packages that a process loads itself, if at all.
LATE = ("lr_client.spark", "lrq.contrib", "lrq.demo", "lrq.testing", "queues._migrations")
LIBRARIES = (
    "alembic.command", "django.core.management", "django.db.models", "django.template", "grpc_health.v1.health",
    "psycopg", "pydantic_settings", "rich.table", "typer.main",
)  # fmt: skip
_LONGEST_REQUEST = 1_000_000


def load() -> None:
    """Import lrq and the libraries that most processes need, as far as they are installed."""
    _import("sink.transport.quiet_grpc")  # before any other module loads gRPC
    for name in LIBRARIES:
        _import(name)
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.startswith(LATE) and not module.name.endswith("__main__"):
                _import(module.name)
    gc.collect()
    gc.freeze()


def _import(name: str) -> None:
    with suppress(ImportError):
        importlib.import_module(name)


def next_process() -> dict[str, Any]:
    """Answer each request with the number of a new process; in that process, return the request."""
    with socket.socket(fileno=os.dup(0)) as asked:
        while True:
            message, files, _, _ = socket.recv_fds(asked, _LONGEST_REQUEST, 3)
            if not message:
                sys.exit()
            read, write = os.pipe()
            if (between := os.fork()) == 0:
                # The process in between ends, so that the process that asked becomes the parent of the new one.
                between = os.getpid()
                if (made := os.fork()) == 0:
                    while os.getppid() == between:
                        os.sched_yield()
                    break
                os.write(write, made.to_bytes(8, "big"))
                os._exit(0)
            os.waitpid(between, 0)
            asked.send(os.read(read, 8))
            for file in (read, write, *files):
                os.close(file)
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in (read, write, *files):
        os.close(file)
    request: dict[str, Any] = json.loads(message)
    return request


def begin(request: dict[str, Any]) -> None:
    """Give this process the surroundings that the request names."""
    if request["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    if request["strict"]:
        sys.warnoptions[:] = ["error"]
        warnings.simplefilter("error")


def run(kind: str, program: str, arguments: list[str]) -> None:
    """Run a module (`-m`), a text (`-c`) or a file as the program of this process."""
    first = {"-m": os.getcwd(), "-c": "", "file": str(Path(program).resolve().parent)}[kind]
    more = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [first, *more, *sys.path[1:]]
    sys.argv = [kind, *arguments]
    if kind == "-m":
        if not hasattr(sys.modules.get(program), "__path__"):
            sys.modules.pop(program, None)  # the program runs as `__main__`, not as the module that is loaded
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    elif kind == "file":
        sys.argv[0] = program
        runpy.run_path(program, run_name="__main__")
    else:
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    load()
    asked = next_process()
    begin(asked)
    run(asked["kind"], asked["program"], asked["arguments"])
