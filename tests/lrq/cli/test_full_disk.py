"""A full disk of PostgreSQL: `lrq status` and `lrq doctor` tell a trouble that no idle server notices."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters import Cluster
from tests.lrq.cli.command import Command

pytestmark = [pytest.mark.processes, pytest.mark.long, pytest.mark.postgresql]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Give a small disk of its own; only root may make one."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=110m,mode=777", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("this user may not mount a disk")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def fill(file: Path) -> None:
    """Write to *file* until the disk is full."""
    with pytest.raises(OSError, match="No space left"):
        file.write_bytes(bytes(128 * 1024**2))


@pytest.fixture
def cluster(disk: Path) -> Iterator[Cluster]:
    made = Cluster(disk / "pg")
    yield made
    made.stop()


def test_a_full_disk_of_postgresql_is_a_trouble_until_there_is_room_again(
    lrq: Command, disk: Path, cluster: Cluster
) -> None:
    at = ("--database", cluster.url())
    assert lrq("init", "--site", "paris", *at).code == 0
    assert lrq("status", *at).code == 0
    fill(disk / "filling")
    done = lrq("status", "--json", *at)
    assert done.code == 3
    [trouble] = done.json["troubles"]
    assert trouble.startswith("the disk of the database is full (could not write to file")
    assert trouble.endswith("No space left on device): free some space there")
    assert "the disk of the database is full" in lrq("doctor", *at).out
    (disk / "filling").unlink()
    assert lrq("status", *at).code == 0
