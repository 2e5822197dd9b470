"""Options of the Spark formats that read queues."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, Self

from sqlalchemy import URL

from discovery.ownership import TTL
from queues import names
from queues.database import urls
from queues.errors import ConfigurationError, UsageError
from queues.names import ClientName, SiteId

_TRUTH = {"true": True, "false": False}
_RECEIVE: Final = (
    "url", "client", "source", "partitions", "maxEntriesPerBatch", "maxBytesPerBatch", "deleteOnCommit",
    "snapshotMarkers", "leaseSeconds", "partitionKeys",
)  # fmt: skip
#: How alike two names are if one of them is a misspelt other one, from 0 to 1.
_ALIKE: Final = 0.85


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """Options of `format("lrq_receive")`; `repr` omits the URL, which may contain a password."""

    url: str = field(repr=False)
    client: ClientName
    source: SiteId | None
    partitions: int
    max_entries: int
    max_bytes: int
    deletes: bool
    markers: bool
    lease_seconds: int
    partition_keys: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse Spark's *options*; raise `UsageError` for a missing or invalid value, `InvalidNameError` for a name."""
        refuse_misspelt(options, _RECEIVE)
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
            partition_keys=flag(options, "partitionKeys", default=False),
        )


def refuse_misspelt(options: Mapping[str, str], known: Collection[str]) -> None:
    """Raise `UsageError` for an option whose name is nearly one of *known*: Spark would leave the option out.

    The beginning of a known name is refused too, and a known name with an ending. Options with other names pass,
    because Spark adds some of its own.
    """
    plain = {_plain(name): name for name in known}
    exact = {name.lower() for name in known}
    for given in options:
        meant = _meant(_plain(given), plain)
        if meant is not None and given.lower() not in exact:
            raise UsageError(f"there is no option `{given}`: write `{plain[meant]}`")


def _meant(given: str, known: Collection[str]) -> str | None:
    """Return the name among *known* that the writer of *given* probably meant; None without such a name."""
    close = get_close_matches(given, known, 1, _ALIKE)
    begun = [name for name in known if given and (name.startswith(given) or given.startswith(name))]
    return next(iter([*close, *begun]), None)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def required(options: Mapping[str, str], name: str, spark_format: str) -> str:
    """Return the option *name*; raise `UsageError` when it is missing."""
    if name not in options:
        raise UsageError(f"format('{spark_format}') needs the option `{name}`")
    return options[name]


def number(options: Mapping[str, str], name: str, default: int) -> int:
    """Return the option *name*, a whole number above zero; raise `UsageError` for another value."""
    text = options.get(name, str(default))
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"the option `{name}` is {text!r}: give a whole number above zero")
    return int(text)


def flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return the option *name*, true or false; raise `UsageError` for another value."""
    text = options.get(name, str(default)).lower()
    if text not in _TRUTH:
        raise UsageError(f"the option `{name}` is {text!r}: write true or false")
    return _TRUTH[text]


def database_url(options: Mapping[str, str], spark_format: str) -> str:
    """Return the option `url` in a form valid in all processes of this machine; raise `UsageError` if there is none."""
    try:
        url = urls.parse(required(options, "url", spark_format))
    except ConfigurationError as error:
        raise UsageError(f"the option `url` is no database URL: {error}") from None
    return shared_url(url)


def shared_url(url: URL) -> str:
    """Return *url* as text for Spark's tasks; raise `UsageError` if other processes cannot reach the database."""
    shared = urls.shareable(url)
    if shared is None:
        raise UsageError("Spark's tasks run in separate processes: use a SQLite database in a file")
    return shared.render_as_string(hide_password=False)
