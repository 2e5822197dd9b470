"""Certificates of an authority that only tests trust."""

from datetime import datetime
from pathlib import Path

import trustme

from sink.transport.credentials import Credentials


def issued(
    authority: trustme.CA,
    folder: Path,
    *names: str,
    common_name: str | None = None,
    verify_site: bool = False,
    not_after: datetime | None = None,
) -> Credentials:
    """Write a certificate for *names* (by default 127.0.0.1) into *folder*, replacing an earlier one."""
    files = folder / "site.pem", folder / "site.key", folder / "authority.pem"
    credentials = Credentials(*files, verify_site=verify_site)
    made = authority.issue_cert(*(names or ("127.0.0.1",)), common_name=common_name, not_after=not_after)
    credentials.certificate.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
    credentials.key.write_bytes(made.private_key_pem.bytes())
    credentials.authority.write_bytes(authority.cert_pem.bytes())
    return credentials
