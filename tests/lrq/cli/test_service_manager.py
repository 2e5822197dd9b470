"""A service manager is told that `lrq serve` is ready, lives and stops: by a real socket, from a real process."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from lrq.cli.process.service_manager import ServiceManager, socket_address, watchdog_pause
from tests.lrq.cli.command import served
from tests.waiting import eventually


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(30)
        yield listening


def heard(manager: socket.socket) -> str:
    return manager.recv(4096).decode()


def environment(manager: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.getsockname(), **more}


@pytest.mark.parametrize(
    ("told", "pause"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "5000000"}, 2.0),
        ({"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "7"}, 2.0),
        ({"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "8"}, None),
    ],
)
def test_signs_of_life_come_more_than_twice_in_the_time_of_the_watchdog(told: dict[str, str], pause: float | None):
    assert watchdog_pause(told, 7) == pause


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ({}, None),
        ({"NOTIFY_SOCKET": "/run/n"}, "/run/n"),
        ({"NOTIFY_SOCKET": "@n"}, "\0n"),
        ({"NOTIFY_SOCKET": "n"}, None),
    ],
)
def test_a_socket_is_a_path_or_an_abstract_name(told: dict[str, str], address: str | None):
    assert socket_address(told) == address


def test_a_process_without_a_manager_tells_nothing():
    alone = ServiceManager({"WATCHDOG_USEC": "1000"})
    alone.ready("site paris", lambda: True)
    alone.stopping()


def test_a_socket_that_is_gone_disturbs_no_process(tmp_path: Path):
    left = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    left.ready("site paris", lambda: True)
    left.stopping()


def test_no_sign_of_life_is_sent_while_a_loop_hangs(manager: socket.socket):
    is_alive = [True]
    told = ServiceManager(environment(manager, WATCHDOG_USEC="50000"))
    told.ready("site paris", lambda: is_alive[0])
    assert heard(manager) == "READY=1\nSTATUS=site paris"
    assert heard(manager) == heard(manager) == "WATCHDOG=1"
    is_alive[0] = False
    manager.settimeout(0.5)

    def is_quiet() -> bool:
        try:
            heard(manager)
        except TimeoutError:
            return True
        return False

    eventually(is_quiet)
    told.stopping()
    assert heard(manager) == "STOPPING=1"


@pytest.mark.processes
def test_serve_tells_that_it_is_ready_lives_and_stops(site: Engine, manager: socket.socket, tmp_path: Path):
    url = site.url.render_as_string(hide_password=False)
    os_environment = environment(manager, WATCHDOG_USEC="500000")
    options = ("--database", url, "--site", "paris", "--listen", "tcp://127.0.0.1:0")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in os_environment.items():
            patch.setenv(name, value)
        with served(*options, folder=tmp_path / "server") as server:
            assert heard(manager) == "READY=1\nSTATUS=site paris"
            assert heard(manager) == heard(manager) == "WATCHDOG=1"
            server.process.send_signal(signal.SIGTERM)
            found = eventually(lambda: told if (told := heard(manager)) != "WATCHDOG=1" else "")
            assert found == "STOPPING=1"
            assert server.process.wait(30) == 0
    assert os.environ.get("NOTIFY_SOCKET") is None
