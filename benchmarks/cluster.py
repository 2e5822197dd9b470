"""One PostgreSQL server for all contenders of a run, on disk, as durable as it is by default."""

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg

from queues.clock import SYSTEM_CLOCK

_NEVER = threading.Event()
# A server that has run for a while writes to files that it has again and again; to make one takes up to 20 ms, and
# every commit waits for it.
_WAL_FILES: Final = 128
_OPTIONS: Final = {
    "listen_addresses": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "wal_level": "logical",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "min_wal_size": f"{_WAL_FILES * 16}MB",
    "max_connections": "600",
    "max_worker_processes": "40",
    "max_logical_replication_workers": "24",
    "max_replication_slots": "32",
    "max_wal_senders": "32",
    "max_locks_per_transaction": "256",
}


class Cluster:
    """A PostgreSQL that lives as long as the run."""

    def __init__(self, binaries: Path, folder: str | None) -> None:
        """Make and start one with the programs in *binaries*, below *folder*."""
        self.binaries = binaries
        self._user = _unprivileged()
        self._folder = Path(tempfile.mkdtemp(prefix="lrq-bench-", dir=folder))
        if self._user:
            shutil.chown(self._folder, self._user)
        self._data = self._folder / "data"
        subprocess.run(
            [binaries / "initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-D", self._data],
            check=True, stdout=subprocess.DEVNULL, user=self._user, cwd="/",
        )  # fmt: skip
        options = [part for name, value in self._options().items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("wb") as log:
            self._running = subprocess.Popen(
                [binaries / "postgres", "-D", self._data, *options], stdout=log, stderr=log, user=self._user, cwd="/"
            )
        until(self._answers, 60)
        self.version = str(self.execute("postgres", "SHOW server_version")[0][0])
        self._make_wal_files()

    def _options(self) -> dict[str, str]:
        return _OPTIONS | {"unix_socket_directories": str(self._folder)}

    def _answers(self) -> bool:
        if self._running.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended: {(self._folder / 'log').read_text()[-2000:]}")
        with suppress(psycopg.OperationalError):
            self.execute("postgres", "SELECT 1")
            return True
        return False

    def _make_wal_files(self) -> None:
        for _ in range(_WAL_FILES):
            self.execute("postgres", "SELECT pg_logical_emit_message(false, 'bench', '')", "SELECT pg_switch_wal()")
        self.settle()

    def conninfo(self, database: str) -> str:
        """Return how libpq reaches a database."""
        return f"host={self._folder} user=postgres dbname={database}"

    def url(self, database: str) -> str:
        """Return how SQLAlchemy reaches a database."""
        return f"postgresql+psycopg://postgres@/{database}?host={self._folder}"

    def connect(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a connection that commits each statement by itself."""
        return psycopg.connect(self.conninfo(database), autocommit=True)

    def execute(self, database: str, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in a connection of their own; return the rows of the last one."""
        with self.connect(database) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def create(self, *databases: str) -> None:
        """Make empty databases, in place of those of the same name."""
        self.drop(*databases)
        self.execute("postgres", *(f"CREATE DATABASE {name}" for name in databases))

    def drop(self, *databases: str) -> None:
        """Remove databases, and who is connected to them."""
        self.execute("postgres", *(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in databases))

    def settle(self) -> None:
        """Let no contender pay for what one before it left to be written."""
        self.execute("postgres", "CHECKPOINT")

    def stop(self) -> None:
        """End it and remove its folder."""
        self._running.terminate()
        try:
            self._running.wait(30)
        except subprocess.TimeoutExpired:
            self._running.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def until(happened: Callable[[], bool], timeout: float, every: float = 0.02) -> None:
    """Wait for a fact; raise `TimeoutError` when it does not come about."""
    deadline = SYSTEM_CLOCK.monotonic() + timeout
    while not happened():
        if SYSTEM_CLOCK.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:g} s in vain")
        pause(every)


def pause(seconds: float) -> None:
    """Do nothing for a while."""
    if seconds > 0:
        _NEVER.wait(seconds)


def _unprivileged() -> str | None:
    """PostgreSQL refuses to run as root: name another user where this is root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
