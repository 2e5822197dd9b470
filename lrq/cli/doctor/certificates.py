"""Read until when a certificate is valid, and judge the time that is left. Pure."""

import re
import ssl
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from lrq.cli.doctor.findings import Finding, ok, problem, warning

#: Days before its end from which a certificate gives a warning.
SOON: Final = 30
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17


class Validity(NamedTuple):
    """The first and the last moment at which a certificate is valid."""

    begin: datetime
    end: datetime


def validities(pem: str) -> list[Validity]:
    """Return the validity of each certificate in a PEM text; raise `ValueError` for a damaged one."""
    return [validity(ssl.PEM_cert_to_DER_cert(found)) for found in _PEM.findall(pem)]


def validity(der: bytes) -> Validity:
    """Return the validity of a certificate in DER, by RFC 5280, section 4.1; raise `ValueError` for other bytes."""
    try:
        certificate = _content(der, _SEQUENCE)[0]
        rest = _content(certificate, _SEQUENCE)[0]
        if rest[0] == _VERSION:
            rest = _content(rest, _VERSION)[1]
        # Serial number, algorithm and issuer come before the validity.
        for _ in range(3):
            rest = _content(rest, rest[0])[1]
        times = _content(rest, _SEQUENCE)[0]
        first, after = _content(times, times[0])
        last, _ = _content(after, after[0])
        return Validity(_time(times[0], first), _time(after[0], last))
    except IndexError as error:
        raise ValueError("the certificate is cut off") from error


def _content(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the content of the first element, which must have *tag*, and the bytes after that element."""
    if data[0] != tag:
        raise ValueError("the bytes are no certificate")
    length, start = data[1], 2
    if length & 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(data[2:start], "big")
    if len(data) < start + length:
        raise ValueError("the certificate is cut off")
    return data[start : start + length], data[start + length :]


def _time(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii").removesuffix("Z")
    if tag == _UTC_TIME:
        # RFC 5280: two digits below 50 belong to this century.
        text = f"{'20' if text[:2] < '50' else '19'}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def judge(check: str, name: str, found: Validity, now: datetime) -> Finding:
    """Return the finding about the certificate *name* at the time *now*."""
    end = f"{found.end:%Y-%m-%d %H:%M} UTC"
    if now > found.end:
        return problem(check, f"{name} was valid until {end}", "issue a new one and replace the file")
    if now < found.begin:
        begin = f"{found.begin:%Y-%m-%d %H:%M} UTC"
        return problem(check, f"{name} is valid only from {begin}", "compare the clocks of both machines")
    left = found.end - now
    if left < timedelta(days=SOON):
        return warning(check, f"{name} is valid until {end}, for {left.days} more days", "renew it in time")
    return ok(check, f"{name} is valid until {end}")
