"""Stands in for Spark: asks an intake for batches, reads them, and keeps offsets as a checkpoint does."""

import json
from typing import Any

from sqlalchemy import Engine, update

from lr_client.spark.options import ReceiveOptions
from lr_client.spark.receive.intake import Portion, StreamSubscription
from lr_client.spark.receive.offsets import Offset
from lr_client.spark.receive.portion_rows import read_portion
from queues.database.tables.receive import receive_headers, receive_marks
from queues.receive.batches import BatchLimits

#: The largest batch of a test.
LIMITS = BatchLimits(4, 1_000_000)


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def options(engine: Engine, **given: Any) -> ReceiveOptions:
    named = {"url": url_of(engine), "client": "policy", "leaseSeconds": 1, **given}
    return ReceiveOptions.parse({name: str(value) for name, value in named.items()})


def rows_of(engine: Engine, portions: list[Portion]) -> list[dict[str, Any]]:
    batches = [batch for portion in portions for batch in read_portion(url_of(engine), portion)]
    return [row for batch in batches for row in batch.to_pylist()]


def change_branch(engine: Engine, branch: str, after: int) -> None:
    """Move the entries after number *after* to another branch."""
    with engine.begin() as connection:
        connection.execute(update(receive_headers).where(receive_headers.c.seq > after).values(branch=branch))
        connection.execute(update(receive_marks).values(branch=branch))


class Stream:
    """One run of a stream; only `checkpoint` survives the run."""

    def __init__(self, engine: Engine, checkpoint: dict[str, Any] | None = None, **given: Any) -> None:
        self.engine = engine
        self.intake = StreamSubscription(options(engine, **given))
        self.checkpoint = checkpoint if checkpoint is not None else {"start": None, "end": None}

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.intake.close()

    def plan(self, limits: BatchLimits | None = LIMITS) -> bool:
        """Write the end of the next batch into the checkpoint; return whether there is one."""
        start = self._start()
        end = self.intake.after(start, limits)
        if _text(end) == _text(start):
            return False
        self.checkpoint["end"] = _text(end)
        return True

    def read(self) -> list[dict[str, Any]]:
        """Read the batch that the checkpoint has begun."""
        return rows_of(self.engine, self.intake.plan(self._start(), _offsets(self.checkpoint["end"])))

    def done(self) -> None:
        """Write into the checkpoint that the batch is done."""
        self.checkpoint["start"] = self.checkpoint["end"]

    def batch(self, limits: BatchLimits | None = LIMITS) -> list[dict[str, Any]]:
        """Do one whole batch; return its rows, or none if there is no batch."""
        if not self.plan(limits):
            return []
        rows = self.read()
        self.done()
        return rows

    def texts(self, limits: BatchLimits | None = LIMITS) -> list[str]:
        """Do one whole batch; return its payloads as text, markers by their names."""
        return [_told(row) for row in self.batch(limits)]

    def _start(self) -> dict[str, Offset]:
        kept = self.checkpoint["start"]
        return self.intake.start() if kept is None else _offsets(kept)


def _told(row: dict[str, Any]) -> str:
    return f"<{row['kind']}>" if row["payload"] is None else row["payload"].decode()


def _text(offsets: Any) -> str:
    return json.dumps({source: offset._asdict() for source, offset in offsets.items()})


def _offsets(kept: str) -> dict[str, Offset]:
    return {source: Offset.parse(fields) for source, fields in json.loads(kept).items()}
