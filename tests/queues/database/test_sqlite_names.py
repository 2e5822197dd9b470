"""A SQLite file whose `-wal` other processes would not see is refused."""

import os
from pathlib import Path

import pytest

import queues
from queues.database.sqlite_names import is_mounted
from queues.database.transactions import reading
from queues.errors import StoreUnavailableError

MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
36 27 254:0 /home/me/paris.db /data/paris.db rw,relatime - ext4 /dev/vda rw
37 27 254:0 /home/me/a\040b.db /data/a\040b.db rw,relatime - ext4 /dev/vda rw
38 27 254:0 /home/me /other rw,relatime - ext4 /dev/vda rw
39 27
"""


def test_a_file_with_two_names_is_refused_under_both_and_accepted_again_under_one(tmp_path: Path) -> None:
    file, other = tmp_path / "paris.db", tmp_path / "link.db"
    first = queues.create_engine(f"sqlite:///{file}")
    queues.initialize(first, site_id="paris")
    first.dispose()
    os.link(file, other)
    for name in (file, other):
        engine = queues.create_engine(f"sqlite:///{name}")
        with pytest.raises(StoreUnavailableError, match=f"^{name} has 2 names, .*: remove"), reading(engine):
            pass
        engine.dispose()
    other.unlink()
    engine = queues.create_engine(f"sqlite:///{file}")
    with reading(engine):
        pass
    engine.dispose()


@pytest.mark.parametrize("file", ["/data/paris.db", "/data/a b.db"])
def test_a_file_that_is_mounted_alone_is_known(file: str) -> None:
    assert is_mounted(file, MOUNTS)


@pytest.mark.parametrize("file", ["/data/rome.db", "/other/rome.db", "/home/me/paris.db", "/data"])
def test_a_file_in_a_mounted_folder_is_accepted(file: str) -> None:
    assert not is_mounted(file, MOUNTS)
