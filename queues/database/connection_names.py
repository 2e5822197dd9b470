"""The names of lrq's connections in `pg_stat_activity`. Pure."""

from typing import Final

# PostgreSQL keeps 63 bytes of a name, and a letter has up to four.
_LONGEST: Final = 63


def connection_name(site: str | None, role: str) -> str:
    """Return `lrq <site> <role>`, or `lrq <role>` where the site is not known; a long site id is cut."""
    if site is None:
        return f"lrq {role}"
    room = _LONGEST - len(f"lrq  {role}".encode())
    return f"lrq {site.encode()[:room].decode(errors='ignore')} {role}"
