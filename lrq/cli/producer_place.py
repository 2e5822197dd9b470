"""Find the servers and certificates of a producer in options or in the site's file."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from discovery.site_file import DEFAULT_FILE, read_site_file
from lr_client.producer.ring_choice import RingChoice
from queues.errors import ConfigurationError

#: The beginning of the names of producers that exist for one run only.
ONE_RUN: Final = "lrq-produce-"


@dataclass(frozen=True, slots=True)
class ProducerPlace:
    """Endpoints between commas, and the TLS files; each file is None if there is none."""

    endpoints: str
    certificate: str | Path | None
    key: str | Path | None
    authority: str | Path | None

    @staticmethod
    def new_name() -> str:
        """Return a name that no other producer has, so that no run takes the numbers of another."""
        return ONE_RUN + secrets.token_hex(8)


def located(
    config: Path | None, endpoint: str | None, tls: tuple[Path | None, Path | None, Path | None]
) -> ProducerPlace:
    """Return the place: options come first, then the site's file.

    Raises `ConfigurationError` if no server is named, or the file cannot be read.
    """
    file = config or Path(DEFAULT_FILE)
    written = {} if config is None and not file.exists() else read_site_file(file)
    listen = written.get("listen")
    if endpoint is None and isinstance(listen, list):
        endpoint = ",".join(each for each in listen if isinstance(each, str))
    if not endpoint:
        raise ConfigurationError(f"no server is named: give --endpoint, or write listen in {DEFAULT_FILE}")
    names = ("tls_certificate", "tls_key", "tls_authority")
    files = [given or _text(written.get(name)) for given, name in zip(tls, names, strict=True)]
    return ProducerPlace(endpoint, *files)


def ring_endpoint(given: Sequence[str], key: str | None) -> str:
    """Return the endpoints of the ring that takes *key*, of options `SITE=URL` with the endpoints of each ring.

    Raises `ConfigurationError` for rings that cannot share keys, and `UsageError` for a missing or malformed key.
    """
    named = dict(each.partition("=")[::2] for each in given)
    if len(named) < len(given) or not all(named.values()):
        raise ConfigurationError(
            "each --ring is one site and its endpoints: write --ring paris-0=tls://a,tls://b,tls://c"
        )
    return named[RingChoice(named).site_of(key)]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
