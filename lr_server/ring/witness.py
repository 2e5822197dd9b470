"""The witness of a store: a small file outside of the store, which knows the store's last durable step.

A file cannot tell that it is a copy. Each durable step of a store has a random number. The number stands in the store
first, and then in the witness. Only after that the member speaks. So a store whose last step the witness does not know
has forgotten something, and counts no more.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from zlib import crc32

from queues.errors import ConfigurationError, StoreTakenError, StoreUnavailableError

# A slot: the count of writes, the step, and the checksum of both.
_CONTENT: Final = struct.Struct("<QQ")
_CHECKSUM: Final = struct.Struct("<I")
#: The two slots stand in different sectors, so a torn write leaves the slot before.
_SLOT_BYTES: Final = 4_096
#: The first bytes of each database of SQLite.
_DATABASE: Final = b"SQLite format 3\0"


class StoreWitness:
    """The last durable step of one store, for one process at a time. Not for several threads.

    The file belongs on another disk than the store, or at least in another folder, and in no backup.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the witness.

        Raises `StoreTakenError` if another process has it open, and `StoreUnavailableError` if it cannot be opened,
        locked or read. Raises `ConfigurationError` for a database, perhaps under another name, before it is written.
        """
        self._path = path
        with self._telling("opened", "mend its disk or folder, then start again"):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with self._telling("opened", "mend its disk or folder, then start again"):
                _sync_folder(path.parent)
            self._refuse_database()
            self._lock()
            with self._telling("read", "mend its disk, then start again"):
                newest = max(self._slots(), default=None)
        except BaseException:
            os.close(self._file)
            raise
        self._count = 0 if newest is None else newest[0]
        self._step = None if newest is None else newest[1]

    @property
    def step(self) -> int | None:
        """The last step that was written; None for a witness that knows none."""
        return self._step

    def write(self, step: int) -> None:
        """Write *step* durably; raise `StoreUnavailableError` if that fails, also after a part of the bytes."""
        count = self._count + 1
        content = _CONTENT.pack(count, step)
        slot = content + _CHECKSUM.pack(crc32(content))
        with self._telling("written", "make room on its disk, or mend it, then start again"):
            written = os.pwrite(self._file, slot, count % 2 * _SLOT_BYTES)
            if written != len(slot):
                raise OSError(f"the disk took {written} of {len(slot)} bytes")
            os.fdatasync(self._file)
        self._count, self._step = count, step

    def close(self) -> None:
        """Let another process open the witness."""
        os.close(self._file)

    def _refuse_database(self) -> None:
        with self._telling("read", "mend its disk, then start again"):
            first = os.pread(self._file, len(_DATABASE), 0)
        if first == _DATABASE:
            raise ConfigurationError(f"the witness {self._path} is a database: name another file, on another disk")

    def _lock(self) -> None:
        with self._telling("locked", "put it on a disk of this machine, then start again"):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                words = f"another process works with the witness {self._path}: stop it first"
                raise StoreTakenError(words) from error

    @contextmanager
    def _telling(self, action: str, cure: str) -> Iterator[None]:
        """Raise `StoreUnavailableError` for an error of the disk, in one sentence with the file and the cure."""
        try:
            yield
        except OSError as error:
            words = f"the witness {self._path} cannot be {action} ({error.strerror or error}): {cure}"
            raise StoreUnavailableError(words) from error

    def _slots(self) -> Iterator[tuple[int, int]]:
        """Yield the slots that are whole."""
        for place in (0, _SLOT_BYTES):
            found = os.pread(self._file, _CONTENT.size + _CHECKSUM.size, place)
            content, checksum = found[: _CONTENT.size], found[_CONTENT.size :]
            if len(checksum) == _CHECKSUM.size and _CHECKSUM.unpack(checksum)[0] == crc32(content):
                yield _CONTENT.unpack(content)


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
