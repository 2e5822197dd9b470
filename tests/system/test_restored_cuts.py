"""A copy that keeps the incarnation restores a source to before the cut of its sink's snapshot."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import queues
from tests.clusters import Cluster, cluster, site_of
from tests.system.world import Messages, World, in_log_sync
from tests.waiting import eventually

#: More transactions than the restored source makes before its first entry.
_LATER = 200
_SPEND = "SELECT pg_current_xact_id()"


class PostgresqlCopies:
    """Backs up the server of paris by `pg_basebackup`, and starts the copy without any recovery."""

    def __init__(self, world: World, first: Cluster, stack: ExitStack) -> None:
        self._world, self._first, self._stack = world, first, stack
        self._copy = first.folder
        world.engines["paris"] = site_of(first, "paris")

    def back_up(self) -> None:
        self._copy = self._first.copied("copy")

    def go_on(self) -> None:
        """Use ids of transactions, without an entry."""
        for _ in range(_LATER):
            self._world.execute("paris", _SPEND)

    def restore(self) -> None:
        self._world.engines["paris"].dispose()
        self._first.halt()
        copy = Cluster(self._copy)
        self._stack.callback(copy.stop)
        self._world.engines["paris"] = queues.create_engine(copy.url())
        self._stack.callback(self._world.engines["paris"].dispose)


class SqliteCopies:
    """Copies the file of paris while no process has it open."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._file = Path(str(world.site("paris").url.database))
        self._copy = self._file.with_name("copy.db")

    def back_up(self) -> None:
        self._world.engines["paris"].dispose()
        shutil.copyfile(self._file, self._copy)

    def go_on(self) -> None:
        """Use ids of entries, for another site."""
        self._world.transmit("paris", b"lost", b"lost too", to=["lima"])

    def restore(self) -> None:
        self._world.engines["paris"].dispose()
        shutil.copyfile(self._copy, self._file)


@contextmanager
def copies_of_paris(world: World, dialect: str) -> Iterator[PostgresqlCopies | SqliteCopies]:
    if dialect == "sqlite":
        yield SqliteCopies(world)
        return
    with cluster() as first, ExitStack() as stack:
        yield PostgresqlCopies(world, first, stack)


def test_no_entry_counts_as_part_of_a_snapshot_of_the_lost_history(world: World, dialect: str) -> None:
    tokyo = world.subscribe("tokyo")
    world.server("tokyo", listen=[])
    world.server("lima", listen=[])
    # A heartbeat would tell the sink that the log has passed the cut.
    options = {
        "listen": [], "peers": {"tokyo": "local:tokyo", "lima": "local:lima"}, "initial_sync": "log",
        "heartbeat_seconds": 60.0, "stall_seconds": 180.0,
    }  # fmt: skip
    with copies_of_paris(world, dialect) as copies:
        paris = world.server("paris", **options)
        world.transmit("paris", b"before", to=["tokyo"])
        eventually(lambda: tokyo.log("paris") == [b"before"])
        paris.stop()
        copies.back_up()
        copies.go_on()
        world.request_snapshots("paris", "tokyo")
        with world.client.start_snapshot_transmitter(world.site("paris"), Messages(lambda _context: [b"lost"])):
            eventually(lambda: world.execute("paris", "SELECT state FROM lrq_snapshots") == [("ready",)])
        paris = world.server("paris", **options)
        eventually(lambda: tokyo.snapshot("paris") == [b"lost"])
        in_log_sync(paris, "tokyo")
        paris.stop()
        [(cut,)] = world.execute("tokyo", "SELECT cut FROM lrq_receive_marks")
        assert cut
        copies.restore()
        world.transmit("paris", b"after", to=["tokyo"])
        with world.client.start_snapshot_transmitter(world.site("paris"), Messages(lambda _context: [b"restored"])):
            paris = world.server("paris", **options)
            eventually(lambda: tokyo.snapshot("paris")[1:] == [b"restored"] or b"after" in tokyo.log("paris"))
            world.transmit("paris", b"last", to=["tokyo"])
            eventually(lambda: tokyo.log("paris")[-1:] == [b"last"])
        paris.stop()
        assert tokyo.snapshot("paris") == [b"lost", b"restored"]
