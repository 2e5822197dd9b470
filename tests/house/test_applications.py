"""The statements of `docs/applications.md` are true: the example's processes run, and the metrics exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from sqlalchemy import Engine, text

import queues
from discovery import registry
from lr_client import RoutingQueueSenderClient
from lr_server import LogReplicationServer, Settings
from lrq.cli.provided_wait import pending
from lrq.cli.worker_metrics import ClientCounter, WorkerMetrics
from queues.database.transactions import reading
from queues.names import ClientName
from queues.receive.queue_marks import queue_marks
from tests.house.page_blocks import take
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
#: The modules of the page, each with its name in the first line.
MODULES = take(__name__, "docs/applications.md", "python", begin=r"# \w+\.py\n")
PAGE = (ROOT / "docs" / "applications.md").read_text()
POLICY = ClientName("policy")


def examples() -> dict[str, str]:
    """Return the modules of the page, by the names in their first lines."""
    return {block.split()[1]: block for block in MODULES}


def new_site(folder: Path, name: str) -> Engine:
    engine = queues.create_engine(f"sqlite:///{folder}/{name}.db")
    queues.initialize(engine, site_id=name)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE rules (id INTEGER PRIMARY KEY, body TEXT)"))
    return engine


def has_snapshot(engine: Engine) -> bool:
    with reading(engine) as connection:
        return any(
            queue_marks(connection, each.queue_id).received.sync_id for each in registry.find(connection, POLICY)
        )


@pytest.mark.long
@pytest.mark.processes
def test_the_modules_of_the_page_run_as_processes(tmp_path: Path):
    assert sorted(examples()) == ["rules.py", "snapshots.py"]
    for name, code in examples().items():
        (tmp_path / name).write_text(code)
    paris, tokyo = new_site(tmp_path, "paris"), new_site(tmp_path, "tokyo")
    with paris.begin() as connection:
        connection.execute(text("INSERT INTO rules VALUES (1, 'allow'), (2, 'deny')"))
        RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b'{"id": 2}', ["tokyo"])
    with tokyo.begin() as connection:
        connection.execute(text("INSERT INTO rules VALUES (9, 'old')"))

    def lrq(*arguments: str) -> str:
        command = [sys.executable, "-m", "lrq.cli.main", *arguments, "--once", "--log-level", "error"]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    at_tokyo = Settings(site_id="tokyo", database_url=str(tokyo.url), listen=["tcp://127.0.0.1:0"])
    with LogReplicationServer(at_tokyo) as sink:
        at_paris = Settings(
            site_id="paris", database_url=str(paris.url), peers={"tokyo": sink.endpoints[0]}, clients=["policy"],
            initial_sync="snapshot",
        )  # fmt: skip
        with LogReplicationServer(at_paris):
            eventually(lambda: pending(paris, POLICY))
            command = ("provide", "snapshots:rules", "--client", "policy", "--database", str(paris.url))
            assert lrq(*command) == "policy: 1 snapshot provided\n"
            eventually(lambda: has_snapshot(tokyo))
            assert lrq("work", "rules:apply", "--database", str(tokyo.url)) == "policy: 2 entries applied\n"
    with tokyo.connect() as connection:
        rows = connection.execute(text("SELECT id, body FROM rules ORDER BY id")).all()
    assert [tuple(row) for row in rows] == [(1, "allow"), (2, "deny")]
    paris.dispose()
    tokyo.dispose()


def test_the_page_names_every_metric_of_a_worker_and_no_other():
    metrics = WorkerMetrics()
    metrics.show_active("policy", lambda: True)
    counter = ClientCounter(metrics, "policy")
    counter.applied("paris", 3, 0.2)
    counter.failed("paris", ValueError())
    assert counter.total == 3
    written = generate_latest(metrics._registry).decode()
    names = set(re.findall(r"^# HELP (\w+)", written, re.MULTILINE))
    there = {name for name in names if not name.endswith("_created")}
    assert set(re.findall(r"`(lrq_[a-z_]+)`", PAGE)) == there
