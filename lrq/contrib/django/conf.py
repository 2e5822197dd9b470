"""The settings of the app: the dictionary `LRQ` in Django's settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lr_client.arguments import MAX_PAYLOAD_BYTES, checked_limit
from queues import names
from queues.errors import ConfigurationError, InvalidNameError

#: Django's name of the database that holds lrq's tables, unless the setting `DATABASE` says otherwise.
DEFAULT: Final = "default"
_KEYS: Final = ("SITE_ID", "DATABASE", "MAX_PAYLOAD_BYTES")
_EXAMPLE: Final = 'Write LRQ = {"SITE_ID": "paris"} into the settings.'


class Problem(NamedTuple):
    """A mistake in the settings: `number` belongs to Django's id of the check, `hint` is the cure."""

    number: int
    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class AppSettings:
    """The settings with their defaults; `database` is an alias of Django's `DATABASES`, the limit is in bytes."""

    site_id: str
    database: str = DEFAULT
    max_payload_bytes: int = MAX_PAYLOAD_BYTES


def problems(given: object, databases: Mapping[str, object]) -> Iterator[Problem]:
    """Yield each mistake of *given*, the setting `LRQ` or None, beside Django's `DATABASES`. Pure."""
    if not isinstance(given, Mapping):
        yield Problem(1, "The setting LRQ must be a dictionary with SITE_ID.", _EXAMPLE)
        return
    try:
        names.site_id(given.get("SITE_ID"))
    except InvalidNameError as error:
        yield Problem(2, f"LRQ['SITE_ID']: {error}.", _EXAMPLE)
    alias = given.get("DATABASE", DEFAULT)
    if not isinstance(alias, str) or alias not in databases:
        yield Problem(3, f"LRQ['DATABASE'] is {alias!r}, which DATABASES does not have.", "Name one of its aliases.")
    try:
        checked_limit(given.get("MAX_PAYLOAD_BYTES", MAX_PAYLOAD_BYTES))
    except (ConfigurationError, TypeError) as error:
        yield Problem(4, f"LRQ['MAX_PAYLOAD_BYTES']: {error}.", "Give a number of bytes, or remove the key.")
    for key in given:
        if key not in _KEYS:
            yield Problem(5, f"LRQ has the unknown key {key!r}.", f"Known are {', '.join(_KEYS)}.")


def read(given: object, databases: Mapping[str, object]) -> AppSettings:
    """Return the settings in *given*; raise `ConfigurationError` with the first problem. Pure."""
    found = next(problems(given, databases), None)
    if found is not None or not isinstance(given, Mapping):
        raise ConfigurationError(f"{found.text} {found.hint}" if found else _EXAMPLE)
    return AppSettings(
        site_id=given["SITE_ID"],
        database=given.get("DATABASE", DEFAULT),
        max_payload_bytes=given.get("MAX_PAYLOAD_BYTES", MAX_PAYLOAD_BYTES),
    )


def app_settings() -> AppSettings:
    """Return the settings of this process; raise `ConfigurationError` for a mistake."""
    from django.conf import settings

    return read(getattr(settings, "LRQ", None), settings.DATABASES)
