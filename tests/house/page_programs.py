"""The programs that typed pages need, beside those of the environment: curl, PgBouncer, servers of PostgreSQL."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.programs import required


def pooler(folder: Path, user: str) -> Path:
    """Return a folder with PgBouncer, which refuses to run as root: then it runs as *user*."""
    words = "no PgBouncer was found: run tools/ensure_pgbouncer.sh, or set LRQ_TEST_PGBOUNCER to the path of one"
    found = required("LRQ_TEST_PGBOUNCER", "pgbouncer", "/usr/sbin/pgbouncer", words=words)
    script = folder / "pgbouncer"
    script.write_text(f'#!/bin/sh\nexec {found} {f"-u {user}" if os.geteuid() == 0 else ""} "$@"\n')
    script.chmod(0o755)
    return folder


#: The part of curl that the pages use: the options -s, -f and -X, and two exit codes.
_CURL = """\
import sys, urllib.error, urllib.request
*options, url = sys.argv[1:]
method = options[options.index("-X") + 1] if "-X" in options else "GET"
try:
    answer = urllib.request.urlopen(urllib.request.Request(url, method=method))
except urllib.error.HTTPError as refused:
    if any("f" in option for option in options if option.startswith("-")):
        sys.exit(22)
    answer = refused
except urllib.error.URLError:
    sys.exit(7)
sys.stdout.buffer.write(answer.read())
"""


def web_client(folder: Path) -> list[Path]:
    """Return the folders with a small curl for a page: none if the machine has curl, else *folder*."""
    if shutil.which("curl"):
        return []
    script = folder / "curl"
    script.write_text(f"#!{sys.executable}\n{_CURL}")
    script.chmod(0o755)
    return [folder]


def server_makers(folder: Path, programs: Path, user: str) -> Path:
    """Return a folder with the programs that make and start servers; in place of root, *user* runs them."""
    for name in ("initdb", "pg_basebackup", "pg_ctl"):
        script = folder / name
        script.write_text(
            f"#!{sys.executable}\nimport os, pwd, sys\n"
            f"found = pwd.getpwnam({user!r})\n"
            "if os.geteuid() == 0:\n    os.setgroups([]), os.setgid(found.pw_gid), os.setuid(found.pw_uid)\n"
            f"os.execv({str(programs / name)!r}, [{str(programs / name)!r}, *sys.argv[1:]])\n"
        )
        script.chmod(0o755)
    return folder


@contextmanager
def ended_servers(folder: Path) -> Iterator[Path]:
    """Give the new *folder* for a page, open to any user; end the servers that the page leaves there."""
    folder.mkdir()
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        for file in folder.glob("*/postmaster.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text().splitlines()[0]), signal.SIGQUIT)
