"""Check the TLS files of this site: readable, a matching key, and valid for how long."""

from datetime import datetime
from pathlib import Path
from typing import Final

from lrq.cli.doctor.certificates import judge, validities
from lrq.cli.doctor.findings import Finding, ok, problem
from sink.transport.credentials import Credentials

_CHECK: Final = "tls"


def look(credentials: Credentials, now: datetime) -> list[Finding]:
    """Return the findings about the files; raise `ConfigurationError` if one is unusable, or the key another one's."""
    pems = credentials.read()
    return [
        ok(_CHECK, f"{credentials.key} is the key of {credentials.certificate}"),
        *_of_file(credentials.certificate, pems.certificate, now),
        *_of_file(credentials.authority, pems.authority, now),
    ]


def _of_file(file: Path, content: bytes, now: datetime) -> list[Finding]:
    try:
        found = validities(content.decode("ascii", errors="replace"))
    except ValueError as error:
        return [problem(_CHECK, f"{file} cannot be judged ({error})", "write certificates in PEM")]
    # The chain lasts as long as its shortest certificate.
    return [judge(_CHECK, str(file), min(found, key=lambda each: each.end), now)] if found else []
