"""The parts of programs in `docs/applications.md` run: bulk rows, the status, a function as provider, both sites."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from lr_client import ColumnBatch, RoutingQueueSenderClient, listener
from lrq.testing import pair
from tests.forked import Popen
from tests.house.page_blocks import ROOT, take
from tests.waiting import eventually


def part(begin: str) -> str:
    """Return the one part of the page that begins so."""
    (block,) = take(__name__, "docs/applications.md", "python", begin=begin)
    return block


COLUMNS = part("@apply.snapshot_columns")
STATUS = part("import lr_client\n")
FUNCTION = part(r"def airports\(")
BOTH = part("import lrq\nfrom sqlalchemy")
PATIENCE = 100.0


@listener("policy")
def apply(session: Session, source_id: str, entries: Any) -> None:
    """Apply nothing."""


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_the_columns_of_a_snapshot_are_copied_into_the_table(site: Engine):
    made: dict[str, Any] = {"apply": apply}
    exec(COLUMNS, made)
    rows = ColumnBatch("sync", 1, (b'{"id": 1}', b'{"id": 2}'), ("1", "2"))
    with Session(site) as session:
        session.execute(text("CREATE TABLE rules (id integer PRIMARY KEY, body text)"))
        made["apply"].process_snapshot_columns(session, "paris", rows)
        found = session.execute(text("SELECT id, body FROM rules ORDER BY id")).all()
    assert [tuple(row) for row in found] == [(1, '{"id": 1}'), (2, '{"id": 2}')]


@pytest.mark.long
def test_the_status_is_read_at_both_sites(capsys: pytest.CaptureFixture[str]):
    with pair("paris", "tokyo") as (paris, tokyo):
        tokyo.subscribe(apply)
        paris.send("policy", b"rule 1")
        paris.settle(PATIENCE)
        for each in (paris, tokyo):
            exec(STATUS.replace("timeout=3600", "timeout=0"), {"engine": each.engine})
    sent, received = capsys.readouterr().out.splitlines()
    assert sent.split()[0] == "tokyo"
    assert received.endswith(" None")


@pytest.mark.long
def test_a_function_provides_the_snapshot():
    made: dict[str, Any] = {"text": text, "encode": lambda row: json.dumps(tuple(row)).encode()}
    exec(FUNCTION, made)
    heard: list[bytes] = []

    @listener("airports")
    def keep(session: Session, source_id: str, entries: Any) -> None:
        heard.extend(entry.opaque_payload for entry in entries)

    with pair("paris", "tokyo", initial_sync="snapshot") as (paris, tokyo):
        with paris.engine.begin() as connection:
            connection.execute(text("CREATE TABLE airports (code TEXT, name TEXT)"))
            connection.execute(text("INSERT INTO airports VALUES ('LIM', 'Lima')"))
        tokyo.subscribe(keep)
        with RoutingQueueSenderClient("airports").start_snapshot_transmitter(paris.engine, made["airports"]):
            paris.send("airports", b"Lima")
            # The entry is part of the snapshot, because its commit came before the base.
            eventually(lambda: heard == [b'["LIM", "Lima"]'], timeout=PATIENCE)


@pytest.mark.long
@pytest.mark.processes
def test_both_sites_in_one_program_deliver_the_entry(tmp_path: Path):
    (tmp_path / "both.py").write_text(BOTH)
    words, environment = [sys.executable, "both.py"], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    printed, errors = done.communicate(timeout=PATIENCE)
    assert (done.returncode, printed) == (0, "paris b'rule 1'\n"), errors
