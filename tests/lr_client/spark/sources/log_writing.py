"""A site whose log Spark writes: the rows of its log, and frames and streams to write."""

import os
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select

from lr_client.spark.log.rows import LogEntry, log_pages
from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables.producers import log_staged_blocks, log_staging
from queues.database.transactions import reading
from queues.send_log.port import TickLimits
from tests.lr_client.spark.sources.taking import url_of
from tests.queues.reading import Reader


class Site:
    """The source's database, with a reader that takes ticks as its server does."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.url = url_of(engine)
        self._lease: Lease | None = None
        self._reader: Reader | None = None

    def entries(self) -> list[LogEntry]:
        """Return all entries, in the order of the log."""
        if self._reader is None:
            self._lease = leases.acquire(self.engine, "server", "me", ttl=600)
            assert self._lease is not None
            self._reader = Reader(self.engine, self._lease, TickLimits(rows=4_000, payload_bytes=2**20))
        self._reader.drain()
        last = self._reader.last
        return [] if last is None else [entry for page in log_pages(self.engine, 0, last.end_seq) for entry in page]

    def logged(self) -> list[str]:
        return [entry.payload.decode() for entry in self.entries()]

    def left(self) -> int:
        """Return the number of staged parts and blocks."""
        with reading(self.engine) as connection:
            tables = (log_staging, log_staged_blocks)
            counts = [connection.execute(select(func.count()).select_from(each)).scalar_one() for each in tables]
        return sum(counts)


def save(frame: Any, url: str, **options: Any) -> None:
    named = {"url": url, "client": "policy", **options}
    frame.write.format("lrq_log").options(**named).mode("append").save()


def numbers(spark: Any, first: int, last: int, partitions: int = 2) -> Any:
    """Return rows with the payloads *first* to *last* - 1 for tokyo."""
    frame = spark.range(first, last, 1, partitions)
    return frame.selectExpr("cast(cast(id as string) as binary) payload", "array('tokyo') destinations")


def texts(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def lines(spark: Any, folder: Path) -> Any:
    """Return a stream of the lines of the files in *folder*; each file is an epoch of its own."""
    stream = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder))
    return stream.selectExpr("cast(value as binary) payload", "array('tokyo') destinations")


def feed(folder: Path, name: str, *written: str) -> None:
    """Add a file with a number as its *name*; Spark reads the files in the order of their times."""
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text("".join(f"{line}\n" for line in written))
    os.utime(folder / f".{name}", (1_700_000_000 + int(name),) * 2)
    (folder / f".{name}").rename(folder / name)


def write_stream(frame: Any, url: str, checkpoint: Path, **options: Any) -> Any:
    """Start to write *frame*, until its present end."""
    named = {"url": url, "client": "policy", "checkpointLocation": str(checkpoint), **options}
    return frame.writeStream.format("lrq_log").options(**named).trigger(availableNow=True).start()
