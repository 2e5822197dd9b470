"""An authority for the certificates of sites, producers and consoles; needs the extra `tls`."""

import ipaddress
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lrq.cli.secret_files import create_files, replace_files
from queues.clock import now_us
from queues.errors import ConfigurationError, UsageError

AUTHORITY: Final = "authority"
#: The most characters of a common name, by RFC 5280.
_LONGEST_NAME: Final = 64
#: A certificate begins earlier than it was issued, because the clocks of two machines may differ.
_EARLIER: Final = timedelta(hours=1)
_HOST: Final = re.compile(r"(\*\.)?[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.IGNORECASE)
_SIGNING: Final = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip
_SPEAKING: Final = x509.KeyUsage(
    digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
)  # fmt: skip


class Issued(NamedTuple):
    """The files of one new certificate, its hosts, and the end of its validity."""

    certificate: Path
    key: Path
    hosts: tuple[str, ...]
    end: datetime


class _Holder(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def create_authority(folder: Path, name: str, days: int) -> Issued:
    """Write a new authority into *folder*.

    Raises `UsageError` for a name of another length, and `ConfigurationError` if an authority is there.
    """
    if not 0 < len(name) <= _LONGEST_NAME:
        raise UsageError(f"the name of the authority has {len(name)} characters: use 1 to {_LONGEST_NAME}")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    begin, end = _validity(days)
    made = (
        _builder(subject, subject, key, begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNING, critical=True)
        .sign(key, hashes.SHA256())
    )
    files = _files(folder, AUTHORITY)
    create_files(_contents(files, made, key))
    return Issued(*files, (), end)


def issue(folder: Path, name: str, hosts: Sequence[str], days: int, *, renew: bool = False) -> Issued:
    """Write a key and a certificate of the authority in *folder* for *name* at *hosts*.

    With *renew* the files replace those of that name, and without *hosts* the new certificate has the former hosts. The
    certificate ends with its authority at the latest. Raises `UsageError` for a host with a port, and
    `ConfigurationError` if the authority is unusable or the files are there.
    """
    if name == AUTHORITY:
        raise UsageError(f"{AUTHORITY!r} is the name of the authority's own files: choose another name")
    authority = _authority(folder)
    files = _files(folder, name)
    names = [_host(each) for each in hosts] or (_hosts_of(files[0]) if renew else [])
    begin, end = _validity(days, authority.certificate.not_valid_after_utc)
    key = ec.generate_private_key(ec.SECP256R1())
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    issuer = authority.certificate.subject
    own = x509.SubjectKeyIdentifier.from_public_key(authority.key.public_key())
    builder = (
        _builder(_subject(name), issuer, key, begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_SPEAKING, critical=True)
        .add_extension(usages, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    contents = _contents(files, builder.sign(authority.key, hashes.SHA256()), key)
    if renew:
        replace_files(contents)
    else:
        create_files(contents)
    return Issued(*files, tuple(str(each.value) for each in names), end)


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.pem", folder / f"{name}.key"


def _contents(
    files: tuple[Path, Path], certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> list[tuple[Path, bytes]]:
    """Return the key first: its file tells whether the name is taken."""
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return [(files[1], key.private_bytes(pem, *form)), (files[0], certificate.public_bytes(pem))]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number(), begin, end)
    return made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _validity(days: int, latest: datetime | None = None) -> tuple[datetime, datetime]:
    now = datetime.fromtimestamp(now_us() // 1_000_000, UTC)
    end = now + timedelta(days=days)
    if latest is not None and latest <= now:
        raise ConfigurationError(
            f"the authority was valid until {latest:%Y-%m-%d}: make one in another folder with `lrq tls init`"
        )
    return now - _EARLIER, end if latest is None else min(end, latest)


def _authority(folder: Path) -> _Holder:
    certificate, key = _files(folder, AUTHORITY)
    found = _certificate(certificate)
    try:
        secret = serialization.load_pem_private_key(key.read_bytes(), None)
    except OSError as error:
        raise ConfigurationError(f"{key} cannot be read ({error.strerror}): run `lrq tls init`") from error
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{key} is no private key in PEM without a password") from error
    if not isinstance(secret, ec.EllipticCurvePrivateKey) or secret.public_key() != found.public_key():
        raise ConfigurationError(f"{key} is not the key of {certificate}: put the files of one authority there")
    return _Holder(found, secret)


def _certificate(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read ({error.strerror}): run `lrq tls init`") from error
    except ValueError as error:
        raise ConfigurationError(f"{file} is no certificate in PEM") from error


def _hosts_of(file: Path) -> list[x509.DNSName | x509.IPAddress]:
    """Return the hosts in the certificate at *file*, none if there is no file."""
    if not file.exists():
        return []
    try:
        found = _certificate(file).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return [each for each in found.value if isinstance(each, x509.DNSName | x509.IPAddress)]


def _host(text: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        if not _HOST.fullmatch(text):
            raise UsageError(f"{text!r} is no host: write a host name or an address, without tls:// and port") from None
        return x509.DNSName(text)
