"""Drivers that are killed while they write the log, and started again with the same checkpoint."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.lr_client.spark.faults.jvm import process
from tests.lr_client.spark.sources.log_writing import Site, feed, lines, write_stream

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(400)]

_PATIENCE = 200
FIRST, SECOND, THIRD = ["1a", "1b", "1c"], ["2a", "2b", "2c", "2d"], ["3a"]


def killed(site: Site, folder: Path, moment: str) -> subprocess.Popen[bytes]:
    module = "tests.lr_client.spark.sources.log_driver"
    command = [sys.executable, "-m", module, site.url, str(folder / "in"), str(folder / "checkpoint"), moment]
    with process(command, folder / "driver.log") as running:
        running.wait(_PATIENCE)
        return running


@pytest.mark.parametrize(
    ("moment", "stored", "dialect"),
    [
        pytest.param("before", 0, "sqlite", marks=pytest.mark.nightly),
        pytest.param("between", 2, "sqlite", marks=pytest.mark.nightly),
        ("between", 2, "postgresql"),
        pytest.param("after", 4, "sqlite", marks=pytest.mark.nightly),
    ],
    indirect=["dialect"],
)
def test_each_row_is_stored_once_though_the_driver_was_killed(
    spark: Any, site: Engine, tmp_path: Path, moment: str, stored: int
) -> None:
    paris = Site(site)
    feed(tmp_path / "in", "1", *FIRST)
    feed(tmp_path / "in", "2", *SECOND)
    assert killed(paris, tmp_path, moment).returncode == -signal.SIGKILL
    assert paris.logged() == [*FIRST, *SECOND[:stored]]
    assert (paris.left() > 0) == (moment != "after")
    done = {path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")}
    assert done == {"0"}
    feed(tmp_path / "in", "3", *THIRD)
    query = write_stream(lines(spark, tmp_path / "in"), paris.url, tmp_path / "checkpoint", rows_per_transaction=2)
    query.awaitTermination(_PATIENCE)
    assert paris.logged() == [*FIRST, *SECOND, *THIRD]
    assert paris.left() == 0
