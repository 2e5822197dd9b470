"""PgQ with its own consumer framework (Debian's python3-pgq), one process per destination."""

import subprocess
from pathlib import Path
from typing import Final

from benchmarks.contender import Place
from benchmarks.contenders import pgq
from benchmarks.contenders.tables import SOURCE

#: The distribution's interpreter, which finds the distribution's packages.
PYTHON: Final = Path("/usr/bin/python3")
_SCRIPT: Final = Path(__file__).with_name("pgq_consumer.py")
_SETTINGS: Final = """[deliver]
job_name = sink{number}
db = {source} options='-c jit=off'
sink_db = {sink} options='-c synchronous_commit=off'
queue_name = {queue}
mask = {mask}
loop_delay = 0.01
pidfile = {folder}/%(job_name)s.pid
logfile = {folder}/%(job_name)s.log
"""


class PgQPython(pgq.PgQ):
    """PgQ with the same queue and ticker, and another apply loop."""

    name = "PgQ, Python consumer"
    share = 0.5

    def __init__(self) -> None:
        """Start no process yet."""
        super().__init__()
        self._running: list[subprocess.Popen[bytes]] = []

    def _consume(self, place: Place, number: int, sink: str) -> None:
        file = place.folder / f"pgq-{number}.ini"
        file.write_text(
            _SETTINGS.format(
                number=number, source=place.cluster.conninfo(SOURCE), sink=place.cluster.conninfo(sink),
                queue=pgq.QUEUE, mask=1 << number, folder=place.folder,
            )
        )  # fmt: skip
        quiet = subprocess.DEVNULL
        command = [str(PYTHON), "-I", "-W", "ignore", str(_SCRIPT), "-q", str(file)]
        self._running.append(subprocess.Popen(command, stdout=quiet, stderr=quiet))

    def close(self) -> None:
        """Stop the consumers, then the rest."""
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()
        super().close()


def missing() -> str:
    """Return the reason why this contender cannot run; empty if it can."""
    tried = PYTHON.exists() and subprocess.run([PYTHON, "-I", "-c", "import pgq"], capture_output=True, check=False)
    return "" if tried and tried.returncode == 0 else "not installed: apt-get install python3-pgq python3-skytools"
