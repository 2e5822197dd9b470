"""What contenders share whose entries processes of the benchmark carry from the source to the destinations."""

from benchmarks.contenders.tables import Databases
from benchmarks.contenders.workers import Workers


class Carried:
    """Ordered: entries arrive in the order of their numbers."""

    ordered = True
    _databases: Databases

    def __init__(self) -> None:
        """Run nothing yet."""
        self._workers = Workers()

    def progress(self, destination: int) -> int:
        """Return the newest entry that is there."""
        return self._databases.newest(destination)

    def stored(self, destination: int) -> tuple[int, int]:
        """Count the rows of the destination."""
        return self._databases.stored(destination)

    def close(self) -> None:
        """Stop all and drop the databases."""
        self._workers.stop()
        self._databases.close()
