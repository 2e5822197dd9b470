"""The generated code matches `proto/`."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from queues.wire import replication_pb2

ROOT = Path(__file__).parents[2]


@pytest.fixture
def wire():
    spec = importlib.util.spec_from_file_location("wire_tool", ROOT / "tools" / "wire.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_code_is_up_to_date(wire):
    assert wire.stale() == [], "run `make proto`"


def test_a_changed_protocol_makes_the_generated_code_stale(wire, tmp_path: Path, monkeypatch):
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    shutil.copytree(ROOT / "queues" / "wire", tmp_path / "queues" / "wire")
    monkeypatch.setattr(wire, "ROOT", tmp_path)
    assert wire.stale() == []
    with (tmp_path / "proto" / "entry.proto").open("a") as proto:
        proto.write("message Forgotten {}\n")
    assert wire.stale() == ["entry_pb2.py", "entry_pb2.pyi"]


def test_generated_code_without_a_protocol_file_is_noticed(wire, tmp_path: Path, monkeypatch):
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    shutil.copytree(ROOT / "queues" / "wire", tmp_path / "queues" / "wire")
    (tmp_path / "queues" / "wire" / "old_pb2.py").touch()
    monkeypatch.setattr(wire, "ROOT", tmp_path)
    assert wire.stale() == ["old_pb2.py"]


def test_a_renamed_field_keeps_its_number():
    """Neighbouring versions of lrq read each other's bytes, which identify fields by number only."""
    assert replication_pb2.Batch.DESCRIPTOR.fields_by_name["start"].number == 1


def test_every_protocol_file_is_generated(wire):
    assert {path.name for path in (ROOT / "proto").glob("*.proto")} == set(wire.MESSAGES)
