"""A driver that is killed while it commits an epoch of a stream to the log.

Run as: log_driver.py <url> <folder with files> <checkpoint> <moment>. The moment is `before` or `after` the commit of
the second file's epoch, or `between` two transactions.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType
from sqlalchemy import Engine, event

from lr_client.spark import local_session, register
from lr_client.spark.log.format import LogFormat
from lr_client.spark.log.writer import LogStreamWriter
from tests.lr_client.spark.sources.log_writing import lines

#: The epoch that dies, and the rows of each of its transactions.
EPOCH, ROWS = 1, 2


def die(driver: int) -> None:
    """Kill the driver, Spark's virtual machine and this process: nothing of them can clean up."""
    os.killpg(driver, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class DyingWriter(LogStreamWriter):
    driver: int
    moment: str

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803 - Spark's
        if batchId == EPOCH and self.moment == "before":
            die(self.driver)
        if batchId == EPOCH and self.moment == "between":
            self._die_in_the_second_transaction()
        LogStreamWriter.commit(self, messages, batchId)
        if batchId == EPOCH:
            die(self.driver)

    def _die_in_the_second_transaction(self) -> None:
        moved: list[str] = []

        def count(_connection: Any, _cursor: Any, sql: str, *_rest: Any) -> None:
            moved.extend([sql] if sql.startswith("DELETE FROM lrq_log_staged_blocks") else [])
            if len(moved) == 2:
                die(self.driver)

        event.listen(Engine, "before_cursor_execute", count)


class DyingLog(LogFormat):
    @classmethod
    def name(cls) -> str:
        return "dying_lrq_log"

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter:  # noqa: N802 - Spark's
        writer = DyingWriter(LogFormat.streamWriter(self, schema, overwrite)._options)
        writer.driver, writer.moment = int(self.options["driver"]), self.options["moment"]
        return writer


if __name__ == "__main__":
    url, folder, checkpoint, moment = sys.argv[1:]
    spark = local_session(memory="512m", log_level="OFF")
    register(spark)
    spark.dataSource.register(DyingLog)
    named = {"url": url, "client": "policy", "checkpointLocation": checkpoint, "rows_per_transaction": ROWS}
    writer = lines(spark, Path(folder)).writeStream.format("dying_lrq_log").options(**named)
    writer.options(driver=os.getpid(), moment=moment).trigger(availableNow=True).start().awaitTermination()
