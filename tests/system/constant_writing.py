"""A thread that writes without a pause, while a test replicates the tables."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine


class Writer(threading.Thread):
    """Makes one transaction after the other with *write*, until it is stopped; *write* gets the number, from 0."""

    def __init__(self, engine: Engine, write: Callable[[Connection, int], None]) -> None:
        super().__init__()
        self._engine = engine
        self._write = write
        self.writes = 0
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.is_set():
            with self._engine.begin() as connection:
                self._write(connection, self.writes)
            self.writes += 1


@contextmanager
def written(engine: Engine, write: Callable[[Connection, int], None]) -> Iterator[Writer]:
    """Write until the end of the block."""
    writer = Writer(engine, write)
    writer.start()
    try:
        yield writer
    finally:
        writer.stop.set()
        writer.join()
