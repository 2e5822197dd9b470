"""Write files that only this user may read."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from queues.errors import ConfigurationError

_MODE: Final = 0o600


def create_files(contents: Sequence[tuple[Path, bytes]]) -> None:
    """Write new files with mode 0600, all or none; raise `ConfigurationError` if one of them is there."""
    with ExitStack() as undo:
        for path, content in contents:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                handle = _open(path, os.O_EXCL)
            except FileExistsError as error:
                raise ConfigurationError(
                    f"{path} exists and stays: choose another name or folder, or renew a certificate with --renew"
                ) from error
            # Before the content, which a full disk may refuse.
            undo.callback(path.unlink)
            _fill(handle, content)
        undo.pop_all()


def replace_files(contents: Sequence[tuple[Path, bytes]]) -> None:
    """Write files with mode 0600; a reader sees the former or the new content of each."""
    for path, content in contents:
        _fill(_open(_beside(path), os.O_TRUNC), content)
    for path, _ in contents:
        _beside(path).replace(path)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _open(path: Path, flag: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | flag, _MODE)


def _fill(handle: int, content: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(handle)
