"""Drivers and a standalone cluster of Spark, in processes that a test may kill."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import psutil
from sqlalchemy import Engine

from tests.lr_client.spark.faults.readings import PATIENCE
from tests.waiting import eventually

#: The folder of the project.
HOUSE = Path(__file__).parents[4]
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def process(
    command: list[str], log: Path, variables: Mapping[str, str] = MappingProxyType({})
) -> Iterator[subprocess.Popen[bytes]]:
    """Run *command* with *variables* in its environment; at the end kill its process and all children."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(HOUSE),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        **variables,
    }
    with log.open("ab") as out:
        running = subprocess.Popen(command, cwd=HOUSE, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        print(f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-20:], sep="\n")


@contextmanager
def driver(master: str, engine: Engine, folder: Path, name: str = "driver") -> Iterator[subprocess.Popen[bytes]]:
    """Run an application that builds snapshots of `readings`."""
    url = engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "tests.lr_client.spark.faults.driver", master, url, str(folder)]
    with process(command, folder / f"{name}.log") as running:
        yield running


class Cluster:
    """A master and two workers with one core each."""

    def __init__(self, master: str, workers: list[subprocess.Popen[bytes]]) -> None:
        self.master = master
        self._workers = workers

    def executors(self) -> list[int]:
        """Return the processes that run tasks."""
        found = []
        for child in [child for worker in self._workers for child in psutil.Process(worker.pid).children()]:
            # Dead children of `spark-class` may still belong to the worker, and living ones may end at any moment.
            with suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child.pid)
        return found

    def kill_an_executor(self) -> None:
        os.kill(self.executors()[0], signal.SIGKILL)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Run a standalone Spark cluster on this machine."""
    spark_class = str(Path(sys.executable).with_name("spark-class"))
    anywhere = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as stack:
        stack.enter_context(process([spark_class, _MASTER, *anywhere], folder / "master.log"))
        master = eventually(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", (folder / "master.log").read_text()),
            timeout=PATIENCE,
        )[1]
        workers = []
        for number in range(2):
            size = ["--cores", "1", "--memory", "600m", "--work-dir", str(folder / f"worker-{number}")]
            command = [spark_class, _WORKER, *anywhere, *size, master]
            workers.append(stack.enter_context(process(command, folder / f"worker-{number}.log")))
        eventually(lambda: (folder / "master.log").read_text().count("Registering worker") == 2, timeout=PATIENCE)
        found = Cluster(master, workers)
        yield found
        for executor in found.executors():
            with suppress(ProcessLookupError):
                os.kill(executor, signal.SIGKILL)
