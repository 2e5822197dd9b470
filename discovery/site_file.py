"""The file that describes a site: `lrq.toml`."""

import tomllib
from pathlib import Path
from typing import Final

from discovery.ring_table import with_ring_place
from queues.errors import ConfigurationError

#: The file that is read if no other is named.
DEFAULT_FILE: Final = "lrq.toml"


def read_site_file(file: Path) -> dict[str, object]:
    """Return the tables and values of *file*, with the place of a ring's store as `site_id` and `database_url`.

    Raises `ConfigurationError` if the file cannot be read, is not TOML, or contradicts itself there.
    """
    try:
        return with_ring_place(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:  # also a UnicodeDecodeError
        raise ConfigurationError(f"{file} is no TOML: {error}") from None
