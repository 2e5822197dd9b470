"""Rows of a DataFrame as entries of the log, with the checks of `transmit`."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from lr_client.arguments import checked_payload
from lr_client.spark.log.write_options import LogWriteOptions, split
from queues.destinations import destination_set
from queues.entry_headers import checked_headers
from queues.entry_keys import checked_key
from queues.errors import UsageError
from queues.send_log.outbox import NewEntry

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: The most rows that are Python objects at the same time, and about the most bytes of them.
_SLICE_ROWS: Final = 500
_SLICE_BYTES: Final = 4 * 1024 * 1024


def new_entries(batches: "Iterable[pyarrow.RecordBatch]", options: LogWriteOptions) -> Iterator[NewEntry]:
    """Yield the entry of each row; raise the errors of `transmit_log_entry_message` for a row that it would refuse."""
    for batch in batches:
        each = max(1, batch.nbytes // max(1, batch.num_rows))
        step = max(1, min(_SLICE_ROWS, _SLICE_BYTES // each))
        for start in range(0, batch.num_rows, step):
            for row in batch.slice(start, step).to_pylist():
                yield _entry(row, options)


def _entry(row: dict[str, Any], options: LogWriteOptions) -> NewEntry:
    if row["payload"] is None:
        raise UsageError("a row's `payload` is NULL: leave such rows out, or make it empty")
    headers = row.get("headers")
    return NewEntry(
        checked_payload(row["payload"], options.max_payload_bytes),
        destination_set(options.client, options.destinations or _named(row["destinations"])),
        checked_key(row.get("item_key"), "item_key"),
        checked_key(row.get("partition_key"), "partition_key"),
        checked_headers(None if headers is None else dict(headers)),
    )


def _named(destinations: object) -> Iterable[str]:
    if isinstance(destinations, str):
        return split(destinations)
    return destinations if isinstance(destinations, list) else ()
