"""A server of Spark Connect in a process of its own, and clients without Java."""

import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.lr_client.spark.faults.jvm import process
from tests.waiting import eventually

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_CONF = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
}


@contextmanager
def connect_server(folder: Path, python_path: str) -> Iterator[str]:
    """Run a server with two tasks at once; give the address for its clients."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", "--class", _SERVER]
    for name, value in {**_CONF, "spark.connect.grpc.binding.port": str(port)}.items():
        submit += ["--conf", f"{name}={value}"]
    log = folder / "connect.log"
    with process([*submit, "spark-internal"], log, {"SPARK_DAEMON_MEMORY": "512m", "PYTHONPATH": python_path}):
        eventually(lambda: "Spark Connect server started" in log.read_text(), timeout=120)
        yield f"sc://127.0.0.1:{port}"
