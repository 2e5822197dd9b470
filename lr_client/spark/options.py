"""Options of the Spark formats that read queues."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sqlalchemy import exc, make_url

from discovery.ownership import TTL
from queues import names
from queues.errors import UsageError
from queues.names import ClientName, SiteId

_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """Options of `format("lrq_receive")`; the URL may hold a password, so it is in no text of this."""

    url: str = field(repr=False)
    client: ClientName
    source: SiteId | None
    partitions: int
    max_entries: int
    max_bytes: int
    deletes: bool
    markers: bool
    lease_seconds: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Read what the user gave; raise `UsageError` for what makes no sense."""
        source = options.get("source")
        return cls(
            url=database_url(options, "lrq_receive"),
            client=names.client_name(required(options, "client", "lrq_receive")),
            source=None if source is None else names.site_id(source),
            partitions=number(options, "partitions", 4),
            max_entries=number(options, "maxEntriesPerBatch", 10_000),
            max_bytes=number(options, "maxBytesPerBatch", 64 * 1024 * 1024),
            deletes=flag(options, "deleteOnCommit", default=True),
            markers=flag(options, "snapshotMarkers", default=False),
            lease_seconds=number(options, "leaseSeconds", int(TTL)),
        )


def required(options: Mapping[str, str], name: str, spark_format: str) -> str:
    """Return an option; raise `UsageError` when it was not given."""
    if name not in options:
        raise UsageError(f"format('{spark_format}') needs the option `{name}`")
    return options[name]


def number(options: Mapping[str, str], name: str, default: int) -> int:
    """Return an option that is a whole number above zero; raise `UsageError` for anything else."""
    text = options.get(name, str(default))
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"the option `{name}` is {text!r}: give a whole number above zero")
    return int(text)


def flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return an option that is true or false; raise `UsageError` for anything else."""
    text = options.get(name, str(default)).lower()
    if text not in _TRUTH:
        raise UsageError(f"the option `{name}` is {text!r}: write true or false")
    return _TRUTH[text]


def database_url(options: Mapping[str, str], spark_format: str) -> str:
    """Return the option `url` so that it means the same to Spark's tasks, wherever they run on this machine."""
    try:
        url = make_url(required(options, "url", spark_format))
    except exc.ArgumentError:
        raise UsageError(
            "the option `url` is no database URL: write sqlite:///file or postgresql+psycopg://…"
        ) from None
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database.startswith((":", "file:")):
            raise UsageError("Spark's tasks are processes of their own: they need a SQLite database in a file")
        url = url.set(database=os.fspath(Path(url.database).absolute()))
    return url.render_as_string(hide_password=False)
