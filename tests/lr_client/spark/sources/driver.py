"""A driver that is killed after its second batch is in the database, but not in Spark's checkpoint.

Run as: driver.py <url of the sink> <checkpoint>.
"""

import os
import signal
import sys
from typing import Any

from lr_client.spark import local_session, register
from tests.lr_client.spark.sources.applying import noting

if __name__ == "__main__":
    url, checkpoint = sys.argv[1:]
    spark = local_session(memory="512m", log_level="OFF")
    register(spark)
    once = noting(url)

    def apply_and_die(frame: Any, number: int) -> None:
        once(frame, number)
        if number == 1:
            os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    stream = spark.readStream.format("lrq_receive").options(url=url, client="policy", maxEntriesPerBatch=3).load()
    query = stream.writeStream.foreachBatch(apply_and_die).option("checkpointLocation", checkpoint).start()
    query.awaitTermination()
