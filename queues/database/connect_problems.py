"""Say in one sentence why a database cannot be opened, with the cure. Pure, but for looks at files."""

import os
import re
from pathlib import Path
from typing import Final

from sqlalchemy import URL

from queues import descriptors
from queues.database import urls

_CORRECT: Final = "correct the database URL"
_NOT_OPENED: Final = "unable to open database file"
_READ_ONLY: Final = "attempt to write a readonly database"
#: Patterns of the words of libpq and psycopg, with the sentence for each; a server in another language says otherwise.
#: The first ones are sentences of `queues.database.sqlite_files` and of `sqlite_names`.
_PROBLEMS: Final = (
    (r"^(.* was replaced or removed while this process .*)$", "{0}"),
    (r"^(.* (?:names, and SQLite keeps a -wal for each|is mounted without its folder).*)$", "{0}"),
    (r'database ("[^"]*") does not exist', f"there is no database {{0}} on the server: create it, or {_CORRECT}"),
    (r'role ("[^"]*") does not exist', f"the server knows no role {{0}}: create it, or {_CORRECT}"),
    (r'role ("[^"]*") is not permitted to log in', "the role {0} may not log in: ALTER ROLE {0} LOGIN"),
    (
        r'password authentication failed for user ("[^"]*")',
        "the server refuses the password of {0}: correct the database URL or libpq's password file",
    ),
    (
        r"no password supplied",
        "the server asks for a password: write one into the database URL, or into libpq's password file",
    ),
    (
        r'no pg_hba.conf entry for host ("[^"]*"), user ("[^"]*")',
        "the server admits no connection of {1} from {0}: add a line to its pg_hba.conf",
    ),
    (
        r'pg_hba.conf rejects connection for host ("[^"]*"), user ("[^"]*")',
        "the server rejects each connection of {1} from {0}: change that line of its pg_hba.conf",
    ),
    (
        r'(?:Peer|Ident|peer|ident) authentication failed for user ("[^"]*")',
        "the server takes the user of the system for a role, and that one is not {0}: run as that user, "
        "or change the line in its pg_hba.conf",
    ),
    (
        r'too many connections for role ("[^"]*")',
        "the role {0} has as many connections as it may: ALTER ROLE {0} CONNECTION LIMIT -1, or lower max_connections "
        "of the site",
    ),
    (
        r'too many connections for database ("[^"]*")',
        "the database {0} has as many connections as it may: ALTER DATABASE {0} CONNECTION LIMIT -1, or lower "
        "max_connections of the site",
    ),
    (
        r"sorry, too many clients already|remaining connection slots are reserved",
        "the server has as many connections as it may: raise its max_connections, or lower that of the site",
    ),
    (
        r'permission denied for database ("[^"]*")',
        "the role may not connect to the database {0}: GRANT CONNECT ON DATABASE {0}",
    ),
    (
        r'database ("[^"]*") is not currently accepting connections',
        "the database {0} accepts no connections: ALTER DATABASE {0} ALLOW_CONNECTIONS true",
    ),
    (r"failed to resolve host '([^']*)'", f"the host {{0!r}} is unknown: {_CORRECT}, or the name service"),
    (r'could not translate host name "([^"]*)"', f"the host {{0!r}} is unknown: {_CORRECT}, or the name service"),
    (
        r"failed: (?:session is read-only|server is in hot standby mode)",
        "none of the servers in the database URL takes writes now: promote a standby, or start the primary",
    ),
    (r"could not create socket: Too many open files", descriptors.NO_DESCRIPTOR),
    (
        r'server at "([^"]*)"(?: \([^)]*\))?, port (\d+) failed: Connection refused',
        f"no PostgreSQL listens at {{0}} port {{1}}: start the server, or {_CORRECT}",
    ),
    (
        r'server on socket "([^"]*)" failed: (?:No such file|Connection refused)',
        f"no PostgreSQL listens at the socket {{0}}: start the server, or {_CORRECT}",
    ),
)


def problem(words: str, url: URL | None = None) -> str | None:
    """Return the sentence for *words*, the first line of a driver's error; None for other errors.

    *url* names the host, and the file of a SQLite database. The sentence never has a password.
    """
    for pattern, sentence in _PROBLEMS:
        if found := re.search(pattern, words):
            return sentence.format(*found.groups())
    if words == _NOT_OPENED and descriptors.lack():
        return descriptors.NO_DESCRIPTOR
    if words in (_NOT_OPENED, _READ_ONLY) and url is not None:
        return _file_problem(url)
    if words.endswith("Name or service not known") and url is not None:  # psycopg before 3.2.13
        return f"the host {url.host!r} is unknown: {_CORRECT}, or the name service"
    return None


def _file_problem(url: URL) -> str | None:
    path = urls.file_of(url)
    if path is None:
        return None
    if not path.parent.is_dir():
        return (
            f"the folder {path.parent.absolute()} of the database {path.name} does not exist: create it, or {_CORRECT}"
        )
    if path.is_dir():
        return f"{path.absolute()} is a folder: name a file in the database URL"
    files = [file for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")) if file.exists()]
    for each in (*files, path.parent):
        if not os.access(each, os.W_OK):
            if os.statvfs(each).f_flag & os.ST_RDONLY:
                return f"the disk of {each.absolute()} is mounted read-only: mount the disk for writing, or {_CORRECT}"
            also = ", and SQLite makes files there" if each == path.parent else ""
            return f"{each.absolute()} cannot be written{also}: correct its permissions, or {_CORRECT}"
    return None
