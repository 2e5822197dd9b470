"""Check the settings: the file, its names and values, and the variables."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from discovery.site_file import DEFAULT_FILE
from lrq.cli.doctor.findings import Finding, ok, problem, told
from lrq.cli.place import locate
from queues.errors import ConfigurationError, InvalidNameError

if TYPE_CHECKING:
    from lr_server import Settings

_CHECK = "configuration"
_DATABASE = "LRQ_DATABASE_URL"


def load(config: Path | None, given: Mapping[str, str | None]) -> "tuple[Settings | None, list[Finding]]":
    """Return the settings as the server would read them, or None, with the findings; *given* are options."""
    from lr_server import Settings

    if _names_only_a_database(config, given):
        return None, [_only_a_database(given)]
    try:
        settings = Settings.load(config, **{name: value for name, value in given.items() if value})
    except (ConfigurationError, InvalidNameError) as error:
        return None, [told(_CHECK, error, "correct the file of --config"), *_place(config)]
    return settings, [ok(_CHECK, f"the settings of site {settings.site_id} are complete, from {_source(config)}")]


def _names_only_a_database(config: Path | None, given: Mapping[str, str | None]) -> bool:
    """Return whether --database or its variable is the only setting; the database itself then tells the site's id."""
    has_file = config is not None or Path(DEFAULT_FILE).exists()
    names_it = bool(given.get("database_url")) or _DATABASE in _variables()
    return names_it and not given.get("site_id") and not has_file and not {*_variables()} - {_DATABASE}


def _only_a_database(given: Mapping[str, str | None]) -> Finding:
    try:
        locate(None, given.get("database_url"), None)
    except ConfigurationError as error:
        return told(_CHECK, error, "correct --database, or LRQ_DATABASE_URL")
    return ok(_CHECK, f"only the database is examined: there is no {DEFAULT_FILE} here, and no --config")


def _place(config: Path | None) -> list[Finding]:
    if config is not None or Path(DEFAULT_FILE).exists():
        return []
    return [
        problem(
            _CHECK,
            f"there is no {DEFAULT_FILE} in {Path.cwd()}",
            "name the file with --config, or write one with `lrq init --example lrq.toml`",
        )
    ]


def _source(config: Path | None) -> str:
    file = config or Path(DEFAULT_FILE)
    sources = [str(file)] if config is not None or file.exists() else []
    return " and ".join(sources + _variables()) or "the options"


def _variables() -> list[str]:
    return sorted(name for name in os.environ if name.startswith("LRQ_") and os.environ[name])
