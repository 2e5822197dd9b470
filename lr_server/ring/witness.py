"""The witness of a store: a small file outside of the store, which knows the store's last durable step.

A file cannot tell that it is a copy. Each durable step of a store has a random number. The number stands in the store
first, and then in the witness. Only after that the member speaks. So a store whose last step the witness does not know
has forgotten something, and counts no more.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

from queues.errors import StoreTakenError, StoreUnavailableError

# A slot: the count of writes, the step, and the checksum of both.
_CONTENT: Final = struct.Struct("<QQ")
_CHECKSUM: Final = struct.Struct("<I")
#: The two slots stand in different sectors, so a torn write leaves the slot before.
_SLOT_BYTES: Final = 4_096


class StoreWitness:
    """The last durable step of one store, for one process at a time. Not for several threads.

    The file belongs on another disk than the store, or at least in another folder, and in no backup.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the witness.

        Raises `StoreTakenError` if another process has it open, and `StoreUnavailableError` if it cannot be opened.
        """
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _sync_folder(path.parent)
        except OSError as error:
            raise StoreUnavailableError(f"the witness of a store cannot be opened: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise StoreTakenError(f"another process works with the witness {path}: stop it first") from error
        newest = max(self._slots(), default=None)
        self._count = 0 if newest is None else newest[0]
        self._step = None if newest is None else newest[1]

    @property
    def step(self) -> int | None:
        """The last step that was written; None for a witness that knows none."""
        return self._step

    def write(self, step: int) -> None:
        """Write *step* durably; raise `StoreUnavailableError` if that fails."""
        count = self._count + 1
        content = _CONTENT.pack(count, step)
        try:
            os.pwrite(self._file, content + _CHECKSUM.pack(crc32(content)), count % 2 * _SLOT_BYTES)
            os.fdatasync(self._file)
        except OSError as error:
            raise StoreUnavailableError(f"the witness of a store cannot be written: {error}") from error
        self._count, self._step = count, step

    def close(self) -> None:
        """Let another process open the witness."""
        os.close(self._file)

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
