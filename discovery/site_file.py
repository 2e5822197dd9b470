"""The file that describes a site: `lrq.toml`."""

import tomllib
from pathlib import Path
from typing import Final

from queues.errors import ConfigurationError

#: The file that is read if no other is named.
DEFAULT_FILE: Final = "lrq.toml"


def read_site_file(file: Path) -> dict[str, object]:
    """Return the tables and values of *file*; raise `ConfigurationError` if it cannot be read or is not TOML."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:  # also a UnicodeDecodeError
        raise ConfigurationError(f"{file} is no TOML: {error}") from None
