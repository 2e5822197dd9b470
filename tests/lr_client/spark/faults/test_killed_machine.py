"""The virtual machine of Spark dies, as by lack of memory, and the process of the provider goes on."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.lr_client.snapshot.providing import by_id, payloads_of, ready, request
from tests.lr_client.spark.faults.jvm import process
from tests.lr_client.spark.sources.taking import url_of
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(600)]


@contextmanager
def provider(site: Engine, folder: Path, given: str) -> Iterator[None]:
    """Run a process whose provider was *given* a session or a function, and whose first build kills the machine."""
    module = "tests.lr_client.spark.faults.machine_driver"
    with process([sys.executable, "-m", module, url_of(site), str(folder), given], folder / "provider.log"):
        yield
        (folder / "ended").touch()


@pytest.mark.nightly
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_next_attempt_starts_a_new_virtual_machine(site: Engine, tmp_path: Path) -> None:
    (sync_id,) = request(site, "tokyo")
    with provider(site, tmp_path, "function"):
        told = eventually(lambda: by_id(site, sync_id).error, timeout=400)
        (tmp_path / "go").touch()
        ready(site, sync_id, timeout=400)
    assert told == "the Java process of Spark died during the build: has it memory?"
    assert sorted(payloads_of(site, sync_id)) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_session_whose_virtual_machine_has_died_is_reported_in_one_sentence(site: Engine, tmp_path: Path) -> None:
    (sync_id,) = request(site, "tokyo")
    with provider(site, tmp_path, "session"):
        eventually(lambda: "the Java process of the Spark session has ended" in by_id(site, sync_id).error, timeout=400)
