"""Django's system checks of the settings and of the tables: `manage.py check [--database ALIAS]`."""

from collections.abc import Sequence
from typing import Any, Final

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from lrq.contrib.django.conf import app_settings, problems
from lrq.contrib.django.engines import engine, temporary
from queues.database.schema import require
from queues.errors import LrqError, NotInitializedError, WrongSiteError

_ENGINE: Final = "lrq.E006"
_SITE: Final = "lrq.E007"
_SCHEMA: Final = "lrq.W001"


def check_settings(**_given: Any) -> list[CheckMessage]:  # noqa: ANN401 - Django's interface
    """Return an error for each mistake in the setting `LRQ`, and for a database that lrq cannot use."""
    given = getattr(settings, "LRQ", None)
    found = [
        Error(each.text, hint=each.hint, id=f"lrq.E{each.number:03}") for each in problems(given, settings.DATABASES)
    ]
    return found or _database(app_settings().database)


def _database(alias: str) -> list[CheckMessage]:
    try:
        engine(alias).dispose()  # opens no connection
    except LrqError as error:
        return [Error(f"{error}.", id=_ENGINE)]
    return []


def check_tables(databases: Sequence[str] | None = None, **_given: Any) -> list[CheckMessage]:  # noqa: ANN401
    """Compare the tables with the settings: an error for another site, a warning for another version."""
    if not databases or check_settings():
        return []
    wanted = app_settings()
    if wanted.database not in databases:
        return []
    with temporary(wanted.database) as made:
        try:
            require(made, site_id=wanted.site_id)
        except NotInitializedError:
            return []  # `migrate` creates the tables, and checks before that
        except WrongSiteError as error:
            return [Error(f"{error}.", id=_SITE)]
        except LrqError as error:
            return [Warning(f"{error}.", hint="For older tables, run manage.py migrate.", id=_SCHEMA)]
    return []
