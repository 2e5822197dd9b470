"""`close` in a `__del__` that runs while Python ends: the threads stand still then, so `close` waits for none."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from lr_client import Subscription, subscribe
from lr_client.producer import Producer
from lr_client.snapshot.transmitter import SnapshotTransmitter
from tests.forked import ROOT
from tests.lr_client.snapshot.providing import Provider, numbered, quick
from tests.lr_client.subscriber.applying import Apply
from tests.waiting import eventually

on_sqlite = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
NOWHERE = "tcp://127.0.0.1:1"

MODULE = """
import sys
import lrq, queues

class Apply(lrq.RoutingQueueListener):
    client_name = "policy"
    def process_updates_in_log_entry_sync(self, session, source_id, entries):
        return True
    def process_updates_in_snapshot_sync(self, session, source_id, entries):
        return True

class Application:
    def __init__(self):
        self.opened = OPENED

    def __del__(self):
        ends = sys.is_finalizing()
        self.opened.close()
        sys.stdout.write(f"closed {ends}")
"""
PRODUCER = f"""lrq.Producer({NOWHERE!r}, client="policy", producer="m")
        self.opened.submit([(b"x", ["tokyo"])])"""


def ended(folder: Path, opened: str) -> str:
    """Return the output of a process whose application closes *opened* at its end."""
    (folder / "application.py").write_text(MODULE.replace("OPENED", opened))
    code = "import application; kept = application.Application()"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    return run.stdout + run.stderr


@pytest.mark.processes
def test_a_process_ends_whose_producer_is_closed_while_python_ends(tmp_path: Path) -> None:
    assert ended(tmp_path, PRODUCER) == "closed True"


@on_sqlite
@pytest.mark.processes
def test_a_process_ends_whose_subscription_is_closed_while_python_ends(site: Engine, tmp_path: Path) -> None:
    opened = f"lrq.subscribe(queues.create_engine({str(site.url)!r}), Apply())"
    assert ended(tmp_path, opened) == "closed True"


def test_a_producer_waits_for_no_thread_while_python_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with Producer(NOWHERE, client="policy", producer="m") as producer:
        future = producer.submit([(b"x", ["tokyo"])])
        monkeypatch.setattr(sys, "is_finalizing", lambda: True)
        producer.close(0.0)
        monkeypatch.undo()
        assert not future.done()
        producer.close(0.0)
        assert future.done()


@on_sqlite
@pytest.mark.parametrize(
    "opened", [lambda engine: subscribe(engine, Apply()), lambda engine: quick(engine, Provider(numbered(0)))]
)
def test_a_subscription_and_a_transmitter_wait_for_no_thread_while_python_ends(
    site: Engine, monkeypatch: pytest.MonkeyPatch, opened: Callable[[Engine], Subscription | SnapshotTransmitter]
) -> None:
    others = set(threading.enumerate())
    with opened(site) as working:
        eventually(lambda: working.active)
        monkeypatch.setattr(sys, "is_finalizing", lambda: True)
        working.close()
        monkeypatch.undo()
        assert set(threading.enumerate()) - others
    eventually(lambda: not set(threading.enumerate()) - others)
