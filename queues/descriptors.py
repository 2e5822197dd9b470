"""Whether this process can open a further file or connection."""

import errno
import os
from typing import Final

#: The sentence about a process that cannot.
NO_DESCRIPTOR: Final = (
    "this process has no free file descriptor: raise its limit (ulimit -n, or LimitNOFILE of its systemd unit)"
)


def lack() -> bool:
    """Return whether the process or the machine has no free file descriptor now."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False
