"""Servers of lrq in processes, as `lrq serve` runs them, with default settings."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.moments import Moment, Moments
from benchmarks.stages import SERVER, Stages

_SPAWN = get_context("spawn")


class ServerProcess:
    """A process with the servers of one or more sites."""

    def __init__(self, *sites: Mapping[str, Any], profiled: bool = False, timed: bool = False) -> None:
        """Start the process and wait until its servers are up.

        *profiled*: it counts its CPU time by stage. *timed*: it records its `moments`.
        """
        self._ours, theirs = _SPAWN.Pipe()
        given = theirs, [dict(site) for site in sites], profiled, timed
        self._process = _SPAWN.Process(target=_serve, args=given, daemon=True)
        self._process.start()
        theirs.close()
        if not self._ours.poll(60):
            raise TimeoutError("a server of lrq did not start")
        #: The endpoint of each site.
        self.endpoints: list[str] = self._ours.recv()

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def cpu_by_stage(self) -> dict[str, float]:
        """Return the CPU seconds of a profiled process so far, by stage."""
        self._ours.send("report")
        found: dict[str, float] = self._ours.recv()
        return found

    def moments(self) -> list[Moment]:
        """Return the moments that the process has recorded so far."""
        self._ours.send("moments")
        found: list[Moment] = self._ours.recv()
        return found

    def stop(self) -> None:
        """Stop the process."""
        self._ours.close()
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()


def stop_all(processes: Sequence[ServerProcess]) -> None:
    """Stop several processes at the same time."""
    with ExitStack() as stack:
        for process in processes:
            stack.callback(process.stop)


def _serve(told: Connection, sites: list[dict[str, Any]], profiled: bool, timed: bool) -> None:
    from lr_server import LogReplicationServer, Settings
    from lrq.cli.commands.serve import spare_collector

    stages = Stages()
    moments = Moments()
    if profiled:
        stages.watch(SERVER)
    if timed:
        moments.watch_server()
    with ExitStack() as stack:
        servers = [stack.enter_context(LogReplicationServer(Settings(**site))) for site in sites]
        spare_collector()
        told.send([server.endpoints[0] if server.endpoints else "" for server in servers])
        with suppress(EOFError):
            while asked := told.recv():
                told.send(moments.moments if asked == "moments" else stages.report())
