"""Whether all processes that open a SQLite file share its `-wal`: SQLite finds that one by the name of the file.

Two processes with a `-wal` each overwrite the commits of the other one. So lrq refuses a file with several names. A
file that is mounted without its folder is refused too: `-v ./paris.db:/data/paris.db` of a container does so.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final

#: The mounts of this process, on Linux.
_MOUNTS: Final = Path("/proc/self/mountinfo")
#: The place of the mount point in a line there, and the form of an escaped character.
_MOUNT_POINT: Final = 4
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def problem_of(file: str) -> str | None:
    """Return the reason, in one sentence, why work in *file* is not safe; None if it is, or there is no such file."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    if found.st_nlink > 1:
        return f"{file} has {found.st_nlink} names, and SQLite keeps a -wal for each: remove the other hard links"
    return (
        f"{file} is mounted without its folder, so other processes do not see its -wal: mount the folder"
        if is_mounted(os.path.realpath(file), _mounts())
        else None
    )


def is_mounted(file: str, mounts: str) -> bool:
    """Return whether *mounts*, the text of a mountinfo, has *file* itself as a mount point. Pure."""
    return any(_mount_point(line) == file for line in mounts.splitlines())


def _mount_point(line: str) -> str:
    fields = line.split(" ", _MOUNT_POINT + 1)
    if len(fields) <= _MOUNT_POINT:
        return ""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[_MOUNT_POINT])


def _mounts() -> str:
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # only Linux has this file
        return ""
