"""The common parts of contenders whose processes the benchmark itself starts."""

from benchmarks.contenders.tables import Databases
from benchmarks.contenders.workers import Workers


class Carried:
    """An ordered contender: entries arrive in the order of their numbers."""

    ordered = True
    _databases: Databases

    def __init__(self) -> None:
        """Start no process yet."""
        self._workers = Workers()

    def progress(self, destination: int) -> int:
        """Return the newest entry at the destination."""
        return self._databases.newest(destination)

    def stored(self, destination: int) -> tuple[int, int]:
        """Count the rows of the destination."""
        return self._databases.stored(destination)

    def close(self) -> None:
        """Stop all processes and drop the databases."""
        self._workers.stop()
        self._databases.close()


class CarriedUnordered(Carried):
    """An unordered contender: entries arrive in any order."""

    ordered = False

    def progress(self, destination: int) -> int:
        """Count the entries at the destination."""
        return self.stored(destination)[0]
