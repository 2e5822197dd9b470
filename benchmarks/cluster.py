"""One PostgreSQL server for all contenders of a run, on disk, with its default durability."""

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
# A server that has run for a while reuses its WAL files. A run creates them in advance: every commit would wait up to
# 20 ms for a new file.
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
    """A PostgreSQL server that runs until `stop`."""

    def __init__(self, binaries: Path, folder: str | None, *, wal_files: int = _WAL_FILES) -> None:
        """Create and start a server below *folder*, with the programs in *binaries* and *wal_files* files of WAL."""
        self.binaries = binaries
        #: The user of the server's processes; None for that of this process.
        self.user = _unprivileged()
        #: The folder of the server, with its socket.
        self.folder = Path(tempfile.mkdtemp(prefix="lrq-bench-", dir=folder))
        if self.user:
            shutil.chown(self.folder, self.user)
        self._data = self.folder / "data"
        subprocess.run(
            [binaries / "initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-D", self._data],
            check=True, stdout=subprocess.DEVNULL, user=self.user, cwd="/",
        )  # fmt: skip
        options = [part for name, value in self.options().items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("wb") as log:
            self._running = subprocess.Popen(
                [binaries / "postgres", "-D", self._data, *options], stdout=log, stderr=log, user=self.user, cwd="/"
            )
        until(self._answers, 60)
        self.version = str(self.execute("postgres", "SHOW server_version")[0][0])
        self._make_wal_files(wal_files)

    def options(self) -> dict[str, str]:
        """Return the settings of the server."""
        return _OPTIONS | {"unix_socket_directories": str(self.folder)}

    def _answers(self) -> bool:
        if self._running.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended: {(self.folder / 'log').read_text()[-2000:]}")
        with suppress(psycopg.OperationalError):
            self.execute("postgres", "SELECT 1")
            return True
        return False

    def _make_wal_files(self, number: int) -> None:
        for _ in range(number):
            self.execute("postgres", "SELECT pg_logical_emit_message(false, 'bench', '')", "SELECT pg_switch_wal()")
        self.settle()

    def conninfo(self, database: str) -> str:
        """Return the libpq connection string of a database."""
        return f"host={self.folder} user=postgres dbname={database}"

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database."""
        return f"postgresql+psycopg://postgres@/{database}?host={self.folder}"

    def connect(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        """Return an autocommit connection."""
        return psycopg.connect(self.conninfo(database), autocommit=True)

    def execute(self, database: str, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in a new connection; return the rows of the last one."""
        with self.connect(database) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def create(self, *databases: str) -> None:
        """Create empty databases, replacing older ones of the same names."""
        self.drop(*databases)
        self.execute("postgres", *(f"CREATE DATABASE {name}" for name in databases))

    def drop(self, *databases: str) -> None:
        """Drop databases and end the connections to them."""
        self.execute("postgres", *(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in databases))

    @property
    def pid(self) -> int:
        """The id of the server's first process."""
        return self._running.pid

    def settle(self) -> None:
        """Run a checkpoint, so that a contender does not pay for writes of an earlier one."""
        self.execute("postgres", "CHECKPOINT")

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        self._running.terminate()
        try:
            self._running.wait(30)
        except subprocess.TimeoutExpired:
            self._running.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def until(happened: Callable[[], bool], timeout: float, every: float = 0.02) -> None:
    """Wait until *happened* is true; raise `TimeoutError` after *timeout* seconds."""
    deadline = SYSTEM_CLOCK.monotonic() + timeout
    while not happened():
        if SYSTEM_CLOCK.monotonic() > deadline:
            raise TimeoutError(f"the condition was still false after {timeout:g} s")
        pause(every)


def pause(seconds: float) -> None:
    """Wait for *seconds*; return at once if they are not positive."""
    if seconds > 0:
        _NEVER.wait(seconds)


def _unprivileged() -> str | None:
    """Return a user for PostgreSQL if this process is root, which PostgreSQL refuses; else None."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
