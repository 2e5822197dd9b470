"""The statements of `docs/applications.md` are true: the example's processes run, and the metrics exist."""

import re
import signal
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
from lrq.cli.waits.provided import pending
from lrq.cli.worker_metrics import ClientCounter, WorkerMetrics
from queues.database.transactions import reading
from queues.names import ClientName
from queues.receive.queue_marks import queue_marks
from tests.house.page_blocks import take
from tests.house.typed_lines import words_of
from tests.lrq.cli.command import ended, spawn
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
#: The modules of the page, each with its name in the first line.
MODULES = take(__name__, "docs/applications.md", "python", begin=r"# \w+\.py\n")
PAGE = (ROOT / "docs" / "applications.md").read_text()
POLICY = ClientName("policy")


WORK, PROVIDE = (
    take(__name__, "docs/applications.md", "sh", begin=f"lrq {name}")[0].splitlines() for name in ("work", "provide")
)


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
    assert [words_of(line)[1] for line in (WORK[2], PROVIDE[1])] == ["rules:apply", "snapshots:rules"]
    for name, code in examples().items():
        (tmp_path / name).write_text(code)
    paris, tokyo = new_site(tmp_path, "paris"), new_site(tmp_path, "tokyo")
    with paris.begin() as connection:
        connection.execute(text("INSERT INTO rules VALUES (1, 'allow'), (2, 'deny')"))
        RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b'{"id": 2}', ["tokyo"])
    with tokyo.begin() as connection:
        connection.execute(text("INSERT INTO rules VALUES (9, 'old')"))

    def typed(line: str, database: Engine) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "lrq.cli.main", *words_of(line), "--log-level", "error"],
            cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
            env={"PYTHONPATH": str(ROOT), "PATH": "", "LRQ_DATABASE_URL": str(database.url)},
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
            assert typed(PROVIDE[1], paris) == "policy: 1 snapshot provided\n"
            eventually(lambda: has_snapshot(tokyo))
            assert typed(WORK[2], tokyo) == "policy: 2 entries applied\n"
    with tokyo.connect() as connection:
        rows = connection.execute(text("SELECT id, body FROM rules ORDER BY id")).all()
    assert [tuple(row) for row in rows] == [(1, "allow"), (2, "deny")]
    paris.dispose()
    tokyo.dispose()


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("line", [WORK[0], WORK[1], PROVIDE[0]])
def test_a_command_of_the_page_works_until_a_signal(line: str, tmp_path: Path):
    for name, code in examples().items():
        (tmp_path / name).write_text(code)
    (tmp_path / "audit.py").write_text(examples()["rules.py"].replace('"policy"', '"audit"'))
    site = re.findall(r"--config (\w+)\.toml", line) or ["lrq"]
    new_site(tmp_path, site[0]).dispose()
    url = f"sqlite:///{tmp_path}/{site[0]}.db"
    (tmp_path / f"{site[0]}.toml").write_text(f'site_id = "{site[0]}"\ndatabase_url = "{url}"\n')
    process = spawn(*words_of(line.replace(":9465", ":0")), stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout
    try:
        assert re.search(rb"(listens to|provides snapshots of) policy", process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


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
