"""Two standbys of the benchmarks' PostgreSQL server: each commit is on one of their disks before it returns."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.cluster import Cluster, until

_NAMES: Final = ("follower1", "follower2")
_STREAMING: Final = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'"


@contextmanager
def any_one(cluster: Cluster) -> Iterator[None]:
    """Let each commit of *cluster* wait for one of two standbys, until the end of the block."""
    names = f"ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ({', '.join(_NAMES)})'"
    with ExitStack() as stack:
        for name in _NAMES:
            stack.enter_context(_standby(cluster, name))
        stack.callback(
            cluster.execute, "postgres", "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"
        )
        cluster.execute("postgres", names, "SELECT pg_reload_conf()")
        until(lambda: cluster.execute("postgres", _STREAMING)[0][0] == len(_NAMES), 60)
        yield


@contextmanager
def _standby(cluster: Cluster, name: str) -> Iterator[None]:
    folder = Path(tempfile.mkdtemp(prefix="lrq-standby-", dir=cluster.folder))
    if cluster.user:
        shutil.chown(folder, cluster.user)
    data = folder / "data"
    source = f"{cluster.conninfo('postgres')} application_name={name}"
    try:
        subprocess.run(
            [cluster.binaries / "pg_basebackup", "-d", source, "-D", data, "-R", "-X", "stream", "-c", "fast"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=cluster.user, cwd="/",
        )  # fmt: skip
        # A standby needs at least the limits of its primary.
        options = cluster.options() | {"unix_socket_directories": str(folder)}
        words = [part for option, value in options.items() for part in ("-c", f"{option}={value}")]
        command: list[str | Path] = [cluster.binaries / "postgres", "-D", data, *words]
        with (folder / "log").open("wb") as log:
            running = subprocess.Popen(command, stdout=log, stderr=log, user=cluster.user, cwd="/")
        try:
            yield
        finally:
            _end(running)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(running: "subprocess.Popen[bytes]") -> None:
    running.terminate()
    try:
        running.wait(30)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait(30)
