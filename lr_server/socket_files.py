"""The files of the Unix sockets at which a server listens."""

import os
from collections.abc import Sequence

from sink.transport.endpoints import IpcEndpoint, network_endpoint

_Identity = tuple[int, int] | None


class SocketFiles:
    """Tells of a removed file: open connections go on, and no further one comes.

    A server that stops may remove the file of a later one, even before the first look of that one.
    """

    def __init__(self, endpoints: Sequence[str]) -> None:
        """Remember the files of *endpoints*, where the server listens now."""
        found = [network_endpoint(each) for each in endpoints]
        self._made = {each.path: _identity(each.path) for each in found if isinstance(each, IpcEndpoint)}

    @property
    def trouble(self) -> str:
        """The sentence for the first file that is not the one of before; empty if all are."""
        lost = next((path for path, made in self._made.items() if made is None or _identity(path) != made), None)
        if lost is None:
            return ""
        return (
            f"the socket {lost} was removed or replaced, so no further process connects to its server there: "
            "start that server again"
        )


def _identity(path: str) -> _Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
