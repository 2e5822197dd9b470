"""Options and columns of `format("lrq_log")` when it writes. Pure but for the database URL's parsing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from lr_client.arguments import MAX_PAYLOAD_BYTES, checked_limit
from lr_client.spark.options import database_url, number, refuse_misspelt, required
from queues import names
from queues.destinations import destination_set
from queues.entry_keys import checked_key
from queues.errors import UsageError
from queues.names import SET_SEPARATOR, ClientName

_TEXTS: Final = ArrayType(StringType())
_OPTIONAL: Final = {
    "destinations": (_TEXTS, StringType()),
    "item_key": (StringType(),),
    "partition_key": (StringType(),),
    "headers": (MapType(StringType(), StringType()),),
}
_OPTIONS: Final = (
    "url", "client", "destinations", "producer", "sequence", "rows_per_transaction", "max_payload_bytes",
)  # fmt: skip
_COLUMNS: Final[Mapping[str, tuple[DataType, ...]]] = {"payload": (BinaryType(),), **_OPTIONAL}


@dataclass(frozen=True, slots=True)
class LogWriteOptions:
    """Options of a write; `repr` omits the URL, which may contain a password.

    `destinations` are those of all rows; None if each row names its own. `producer` and `sequence` are both None for a
    job that is never repeated.
    """

    url: str = field(repr=False)
    client: ClientName
    destinations: tuple[str, ...] | None
    producer: str | None
    sequence: int | None
    rows_per_transaction: int | None
    max_payload_bytes: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse Spark's *options*; raise `UsageError` for a missing or invalid value."""
        refuse_misspelt(options, _OPTIONS)
        client = names.client_name(required(options, "client", "lrq_log"))
        for_all = options.get("destinations")
        destinations = None if for_all is None else split(for_all)
        if destinations is not None:
            destination_set(client, destinations)
        rows = number(options, "rows_per_transaction", 1) if "rows_per_transaction" in options else None
        return cls(
            url=database_url(options, "lrq_log"),
            client=client,
            destinations=destinations,
            producer=checked_key(options.get("producer"), "the option `producer`"),
            sequence=_sequence(options),
            rows_per_transaction=rows,
            max_payload_bytes=checked_limit(number(options, "max_payload_bytes", MAX_PAYLOAD_BYTES)),
        )

    def require_batch(self) -> None:
        """Raise `UsageError` unless a batch write may have these options."""
        if (self.producer is None) != (self.sequence is None):
            raise UsageError("a repeatable batch has a name and a number: give both options, `producer` and `sequence`")
        if self.producer is None and self.rows_per_transaction is not None:
            raise UsageError(
                "a batch in several transactions must be repeatable after a crash: "
                "give `producer` and `sequence` with `rows_per_transaction`"
            )

    def require_stream(self) -> None:
        """Raise `UsageError` unless a stream may have these options."""
        if self.producer is not None or self.sequence is not None:
            raise UsageError(
                "a stream is known by its checkpoint: remove the options `producer` and `sequence`, which batches have"
            )


def require_append(*, overwrite: bool) -> None:
    """Raise `UsageError` if Spark would *overwrite* the log."""
    if overwrite:
        raise UsageError("format('lrq_log') only adds entries: use the mode `append`")


def check_columns(schema: StructType, options: LogWriteOptions) -> None:
    """Raise `UsageError` unless the columns of *schema* are those of entries, with their types."""
    types = {each.name: each.dataType for each in schema.fields}
    if "payload" not in types:
        raise UsageError(f"the DataFrame has no column `payload` among {sorted(types)}: add one of type binary")
    for name, found in types.items():
        if name not in _COLUMNS:
            raise UsageError(f"the log has no column `{name}`: select only columns among {', '.join(_COLUMNS)}")
        if schema.names.count(name) > 1:
            raise UsageError(f"the DataFrame has two columns `{name}`: drop or rename one of them")
        if not any(_is_like(found, wanted) for wanted in _COLUMNS[name]):
            wanted_types = " or ".join(each.simpleString() for each in _COLUMNS[name])
            raise UsageError(f"the column `{name}` is of type {found.simpleString()}: make it {wanted_types}")
    if ("destinations" in types) == (options.destinations is not None):
        raise UsageError("name the destinations once: in the column `destinations`, or in the option of that name")


def split(text: str) -> tuple[str, ...]:
    """Return the site ids in *text*, which commas separate."""
    return tuple(name for name in (part.strip() for part in text.split(SET_SEPARATOR)) if name)


def _is_like(found: DataType, wanted: DataType) -> bool:
    """Compare types without regard to NULLs within arrays and maps."""
    if isinstance(wanted, ArrayType):
        return isinstance(found, ArrayType) and found.elementType == wanted.elementType
    if isinstance(wanted, MapType):
        return isinstance(found, MapType) and (found.keyType, found.valueType) == (wanted.keyType, wanted.valueType)
    return found == wanted


def _sequence(options: Mapping[str, str]) -> int | None:
    text = options.get("sequence")
    if text is not None and not (text.isdecimal() and int(text) < 2**62):
        raise UsageError(f"the option `sequence` is {text!r}: give a whole number from 0, such as the batch's")
    return None if text is None else int(text)
