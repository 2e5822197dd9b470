"""A SQLite file that is replaced while a process works with it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

import queues
from queues.database.transactions import reading, writing
from queues.errors import StoreUnavailableError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "paris.db"


@pytest.fixture
def paris(file: Path) -> Iterator[Engine]:
    engine = queues.create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        queues.upgrade(connection, site_id="paris")
    yield engine
    engine.dispose()


def replace(file: Path, tmp_path: Path) -> None:
    """Put a copy in the place of *file*, as the restore of a backup does."""
    copy = tmp_path / "backup.db"
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    for name in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        name.unlink(missing_ok=True)
    copy.rename(file)


def test_a_process_that_has_opened_a_file_does_not_work_beside_its_copy(
    paris: Engine, file: Path, tmp_path: Path
) -> None:
    with writing(paris):
        pass
    replace(file, tmp_path)
    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match=r"^/.*paris.db was replaced or removed"), writing(paris):
            pass
    new = queues.create_engine(f"sqlite:///{file}")
    with reading(new) as connection:
        assert connection.execute(text("SELECT site_id FROM lrq_site")).scalar_one() == "paris"
    new.dispose()


def test_a_removed_file_is_not_made_anew(paris: Engine, file: Path) -> None:
    with writing(paris):
        pass
    file.unlink()
    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match="start the process again"), writing(paris):
            pass
    assert not file.exists()


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_process_stops_once_a_companion_of_its_file_is_removed(
    paris: Engine, file: Path, tmp_path: Path, suffix: str, is_link: bool
) -> None:
    if is_link:
        (tmp_path / "link.db").symlink_to(file)
    with writing(paris):
        pass
    engine = queues.create_engine(f"sqlite:///{tmp_path / 'link.db' if is_link else file}")
    with writing(engine):
        pass
    Path(f"{file}{suffix}").unlink()
    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match=f"paris.db{suffix} was replaced or removed"), writing(engine):
            pass
    engine.dispose()


def test_a_process_goes_on_while_others_open_and_close_its_file(paris: Engine, file: Path) -> None:
    for _ in range(3):
        with closing(sqlite3.connect(file)) as other:
            other.execute("UPDATE lrq_site SET site_id = site_id")
            other.commit()
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with writing(paris):
            pass
