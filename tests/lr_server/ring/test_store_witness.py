"""A store counts only with the witness of its last durable step; a copy of a file does not count."""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

import queues
from lr_server.protocol.agreement.effects import KeepPromise, KeepStore
from lr_server.protocol.agreement.record import StoreId
from lr_server.ring.store import TokenStore
from lr_server.ring.witness import StoreWitness
from queues.errors import ConfigurationError, StoreTakenError, StoreUnavailableError
from tests.conftest import NewSite
from tests.lr_server.ring.stores import (
    TOKEN,
    begin,
    new_store,
    open_store,
    reopen,
    take,
    transaction,
    witness_path,
)


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(new_site: NewSite) -> Engine:
    return new_site("paris")


def open_witnessed_by(engine: Engine, path: Path) -> TokenStore:
    return TokenStore(engine, TOKEN, StoreWitness(path))


# --- the witness itself ---------------------------------------------------------------------------------------


def test_a_witness_knows_the_last_step(tmp_path: Path):
    witness = StoreWitness(tmp_path / "witness")
    assert witness.step is None
    for step in (5, 2**62 - 1, 7):
        witness.write(step)
        witness.close()
        witness = StoreWitness(tmp_path / "witness")
        assert witness.step == step


def test_a_database_under_another_name_is_no_witness_and_stays_as_it_is(engine: Engine, tmp_path: Path):
    new_store(engine).close()
    other_name = tmp_path / "witness"
    other_name.symlink_to(engine.url.database)
    with pytest.raises(ConfigurationError, match="is a database: name another file"):
        open_witnessed_by(engine, other_name)
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"


@pytest.mark.parametrize("torn", range(24))
def test_a_torn_write_leaves_the_step_before(tmp_path: Path, torn: int):
    path = tmp_path / "witness"
    witness = StoreWitness(path)
    for step in (11, 12, 13):
        witness.write(step)
        before = path.read_bytes()
    witness.write(14)
    witness.close()
    after = path.read_bytes()
    # The slot of step 14 has only its first bytes; the others are those of the write two steps before.
    cut = next(place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new) // 4096 * 4096
    path.write_bytes(after[: cut + torn] + before[cut + torn :])
    assert StoreWitness(path).step in (13, 14)


def test_a_witness_belongs_to_one_process(tmp_path: Path):
    first = StoreWitness(tmp_path / "witness")
    with pytest.raises(StoreTakenError, match="stop it first"):
        StoreWitness(tmp_path / "witness")
    first.close()
    StoreWitness(tmp_path / "witness")


def failing(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_witness_without_its_folder_is_told_in_one_sentence(tmp_path: Path):
    path = tmp_path / "none" / "witness"
    with pytest.raises(StoreUnavailableError) as caught:
        StoreWitness(path)
    assert str(caught.value) == (
        f"the witness {path} cannot be opened (No such file or directory): mend its disk or folder, then start again"
    )


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EWOULDBLOCK])
def test_only_a_held_lock_means_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    monkeypatch.setattr(fcntl, "flock", failing(number))
    with pytest.raises(StoreTakenError, match="stop it first"):
        StoreWitness(tmp_path / "witness")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EINVAL, errno.EACCES])
def test_a_disk_without_locks_is_no_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    monkeypatch.setattr(fcntl, "flock", failing(number))
    with pytest.raises(StoreUnavailableError) as caught:
        StoreWitness(tmp_path / "witness")
    assert str(caught.value) == (
        f"the witness {tmp_path / 'witness'} cannot be locked ({os.strerror(number)}): "
        "put it on a disk of this machine, then start again"
    )


@pytest.mark.parametrize("call", ["fsync", "pread"])
def test_a_failed_opening_is_told_in_one_sentence_and_lets_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
):
    path = tmp_path / "witness"
    monkeypatch.setattr(os, call, failing(errno.EIO))
    with pytest.raises(StoreUnavailableError) as caught:
        StoreWitness(path)
    monkeypatch.undo()
    words = {
        "fsync": "opened (Input/output error): mend its disk or folder",
        "pread": "read (Input/output error): mend its disk",
    }
    assert str(caught.value) == f"the witness {path} cannot be {words[call]}, then start again"
    # Other tests of this process may close their files meanwhile, so the number of all files proves nothing.
    assert str(path) not in [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    StoreWitness(path).close()


# --- the proof ------------------------------------------------------------------------------------------------


def copy_of(engine: Engine, folder: Path) -> Callable[[], None]:
    """Copy the file of a store; return a function that restores the file from the copy."""
    path, copy = Path(str(engine.url.database)), folder / "backup.db"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM INTO :path"), {"path": str(copy)})

    def restore() -> None:
        engine.dispose()
        for part in ("-wal", "-shm"):
            path.with_name(path.name + part).unlink(missing_ok=True)
        shutil.copyfile(copy, path)

    return restore


STEPS: dict[str, Callable[[TokenStore], object]] = {
    "a promise": lambda store: store.keep(KeepPromise(8)),
    "a tick": lambda store: take([transaction(b"more")], store),
    "a store of another member": lambda store: store.keep(KeepStore(2, StoreId(2, 2))),
    "a trim": lambda store: store.trim(2),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_copy_from_before_any_step_does_not_count(engine: Engine, tmp_path: Path, step: str):
    store = new_store(engine)
    begin(2, store)
    take([transaction(b"one")], store)
    restore = copy_of(engine, tmp_path)
    STEPS[step](store)
    store.close()
    restore()
    copied = open_store(engine)
    assert copied.record() is None
    assert "is a copy or was restored" in str(copied.doubt)


def test_a_store_without_a_later_step_counts_again_and_again(engine: Engine):
    store = new_store(engine)
    begin(2, store)
    record = store.record()
    for _ in range(3):
        store = reopen(engine, store)
        assert (store.record(), store.doubt) == (record, None)
    take([transaction(b"on")], store)


def test_a_store_without_its_witness_does_not_count(engine: Engine):
    store = new_store(engine)
    store.close()
    witness_path(engine).unlink()
    assert "its witness is lost or new" in str(open_store(engine).doubt)


def test_a_store_whose_witness_is_back_counts(engine: Engine):
    """A disk of witnesses that comes late at a start costs nothing, as long as nothing was copied."""
    new_store(engine).close()
    aside = witness_path(engine).rename(f"{witness_path(engine)}.aside")
    doubtful = open_store(engine)
    with pytest.raises(StoreTakenError):
        doubtful.keep(KeepPromise(9))
    doubtful.close()
    aside.replace(witness_path(engine))
    assert open_store(engine).record() is not None


def test_a_copy_into_a_doubtful_store_ends_its_record_for_ever(engine: Engine, new_site: NewSite):
    other = new_store(new_site("paris"), 1)
    new_store(engine).close()
    aside = witness_path(engine).rename(f"{witness_path(engine)}.aside")
    doubtful = open_store(engine)
    doubtful.copy(0, [begin(2, other)])
    doubtful.close()
    aside.replace(witness_path(engine))
    assert open_store(engine).record() is None


class CrashError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("starts", [1, 3])
def test_a_crash_between_the_store_and_its_witness_leaves_a_store_that_counts(
    engine: Engine, starts: int, monkeypatch: pytest.MonkeyPatch
):
    store = new_store(engine)
    begin(2, store)

    def crash(_self: StoreWitness, step: int) -> None:
        raise CrashError

    really = StoreWitness.write
    monkeypatch.setattr(StoreWitness, "write", crash)
    with pytest.raises(CrashError):
        store.keep(KeepPromise(4))
    store.close()
    for _ in range(starts):
        # Each start ends at its second write: after its first step in the store, before the witness knows.
        writes = iter([really, crash])
        monkeypatch.setattr(StoreWitness, "write", lambda self, step, writes=writes: next(writes)(self, step))
        with pytest.raises(CrashError):
            open_store(engine)
    monkeypatch.setattr(StoreWitness, "write", really)
    again = open_store(engine)
    assert again.record() is not None, again.doubt
    assert again.record().promised == 4


def test_a_step_whose_witness_fails_ends_the_store(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    store = new_store(engine)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(StoreUnavailableError, match="cannot be written"):
        store.keep(KeepPromise(4))
    monkeypatch.undo()
    with pytest.raises(StoreTakenError):
        store.keep(KeepPromise(6))
    assert reopen(engine, store).record().promised == 4


@pytest.mark.parametrize("taken", range(20))
def test_a_short_write_leaves_the_member_without_having_said_anything(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, taken: int
):
    store = new_store(engine)
    really = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, content, place: really(file, content[:taken], place))
    with pytest.raises(StoreUnavailableError) as caught:
        store.keep(KeepPromise(4))
    assert str(caught.value) == (
        f"the witness {witness_path(engine)} cannot be written (the disk took {taken} of 20 bytes): "
        "make room on its disk, or mend it, then start again"
    )
    monkeypatch.undo()
    with pytest.raises(StoreTakenError):
        store.keep(KeepPromise(6))
    again = reopen(engine, store)
    assert again.record() is not None, again.doubt
    assert again.record().promised == 4


def test_two_copies_of_a_store_do_not_both_count(engine: Engine, tmp_path: Path):
    """A file that was copied to another place has no witness there."""
    store = new_store(engine)
    path = tmp_path / "elsewhere.db"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM INTO :path"), {"path": str(path)})
    elsewhere = queues.create_engine(f"sqlite:///{path}")
    assert open_store(elsewhere).record() is None
    elsewhere.dispose()
    store.keep(KeepPromise(2))
