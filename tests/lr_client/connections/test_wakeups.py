"""Transmitting on a connection of any kind wakes an idle server of this process, and on SQLite of another one."""

import socket
import sys
from contextlib import closing

import pytest
from sqlalchemy import Engine

from queues.database.schema import require
from queues.send_log import wakeup
from tests.lr_client.connections.applications import POSTGRESQL, SQLITE, Application, Open, run

KINDS = [("sqlite", name) for name in SQLITE] + [("postgresql", name) for name in POSTGRESQL]


@pytest.fixture
def opening(dialect: str, kind: str, settings_of_django: None) -> Open:
    """Give the opener of the application of this kind."""
    return {"sqlite": SQLITE, "postgresql": POSTGRESQL}[dialect][kind]


@pytest.fixture
def branch(site: Engine) -> str:
    """Give the branch of the site's log."""
    return require(site).branch


async def transmit(app: Application) -> None:
    async with app.transaction():
        await app.transmit(b"x")


@pytest.mark.parametrize(("dialect", "kind"), KINDS, indirect=["dialect"])
def test_a_server_of_this_process_is_woken(site: Engine, opening: Open, branch: str) -> None:
    with closing(wakeup.Wakeup(branch)) as server:
        assert not server.wait(0)
        run(opening, site, transmit)
        assert server.wait(0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract sockets")
@pytest.mark.parametrize(("dialect", "kind"), KINDS[: len(SQLITE)], indirect=["dialect"])
def test_a_server_on_sqlite_in_another_process_is_woken(site: Engine, opening: Open, branch: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(f"\0lrq bell {branch}")
        server.setblocking(False)
        run(opening, site, transmit)
        assert server.recv(1) == b""
