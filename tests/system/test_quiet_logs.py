"""The log lines of a server in an application, and the lines past that log, while nothing changes."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]


def test_an_unreachable_peer_writes_one_line_when_it_is_lost_and_one_when_it_is_back(
    world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    tries: list[str] = []
    caplog.handler.addFilter(lambda record: "lrq" in record.name)
    socket = f"ipc://{tmp_path}/tokyo.sock"
    paris = world.server("paris", listen=[], peers={"tokyo": socket}, initial_sync="log", retry_cap_seconds=0.1)
    world.transmit("paris", b"x", to=["tokyo"])
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") == "backing off")
    (session,) = paris._source.supervisor.sessions()  # type: ignore[union-attr]
    sink, asks = session._connection, session._connection.ask
    sink.ask = lambda *given: (tries.append("again"), asks(*given))[1]  # type: ignore[method-assign]
    eventually(lambda: len(tries) >= 10)
    assert [record.levelname for record in caplog.records if "the peer is lost" in record.getMessage()] == ["WARNING"]
    assert len([record for record in caplog.records if record.name == "lrq.session"]) <= 2
    world.server("tokyo", listen=[socket])
    in_log_sync(paris, "tokyo")
    eventually(lambda: [record for record in caplog.records if "the peer is back" in record.getMessage()])


def test_periodic_work_writes_no_line_into_the_log_of_the_application(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    paris = world.server("paris", listen=[], trim_seconds=0.02)
    world.transmit("paris", b"x", to=["tokyo"])
    runs: list[int] = []
    log = paris._source.log  # type: ignore[union-attr]
    rotate = log.rotate
    log.rotate = lambda *given: (runs.append(1), rotate(*given))[1]  # type: ignore[method-assign]
    eventually(lambda: len(runs) >= 3)
    assert [record for record in caplog.records if "apscheduler" in record.name] == []
    assert [record for record in caplog.records if record.name == "lrq.scheduler"] == []


def test_the_loggers_of_the_application_s_own_apscheduler_stay_as_they_are() -> None:
    levels = [f"logging.getLogger('apscheduler{name}').level" for name in ("", ".scheduler", ".executors.default")]
    code = f"import logging, discovery.scheduler as s; j = s.Jobs(); j.start(); j.stop(); print({', '.join(levels)})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["0", "0", "0"]


@pytest.mark.parametrize(("before", "lines"), [("", 0), ("import grpc", 1)])
def test_grpc_writes_no_lines_of_its_own_unless_the_application_has_loaded_it(before: str, lines: int) -> None:
    """A plain server answers a TLS handshake, about which gRPC writes a line to stderr at each try."""
    code = f"""{before}
import os, socket, threading
from lr_server import LogReplicationServer
import grpc
assert "GRPC_VERBOSITY" not in os.environ
server = socket.create_server(("127.0.0.1", 0))
def refuse():
    while True:
        caller = server.accept()[0]
        caller.sendall(b"HTTP/1.1 400 no\\r\\n\\r\\n")
        caller.close()
threading.Thread(target=refuse, daemon=True).start()
channel = grpc.secure_channel("127.0.0.1:%d" % server.getsockname()[1], grpc.ssl_channel_credentials())
try:
    channel.unary_unary("/x/y")(b"", timeout=20)
except grpc.RpcError:
    pass
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=90
    )
    assert min(done.stderr.count("Handshake failed"), 1) == lines, done.stderr
