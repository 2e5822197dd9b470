"""The habits of Django's drivers, in one registry by lrq's dialects: URLs, and connections that both libraries use."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from sqlalchemy import URL
from sqlalchemy.engine.interfaces import DBAPIConnection

from queues.database import dialects
from queues.database.dialect import Dialect
from queues.errors import ConfigurationError


class DriverHabits(Protocol):
    """The differences between two drivers; a *wrapper* is Django's `DatabaseWrapper`, which has no types."""

    def url(self, given: Mapping[str, Any]) -> URL:
        """Return the URL for an entry of Django's `DATABASES`, with all its defaults."""
        ...

    def opened(self, wrapper: Any) -> None:  # noqa: ANN401
        """Prepare a connection that Django has opened in autocommit for SQLAlchemy."""
        ...

    def connected(self, driver: DBAPIConnection) -> None:
        """Repair the connection after SQLAlchemy has prepared it."""
        ...

    def lend(self, wrapper: Any) -> None:  # noqa: ANN401
        """Prepare the connection for statements of Django."""
        ...

    def take_back(self, wrapper: Any) -> None:  # noqa: ANN401
        """Prepare the connection for statements of lrq."""
        ...


class PsycopgHabits:
    """Django's cursors bind values in the client and read no binary ones, so lrq has its own cursors."""

    def url(self, given: Mapping[str, Any]) -> URL:
        """Leave empty parts to libpq."""
        return URL.create(
            "postgresql+psycopg",
            username=given["USER"] or None,
            password=given["PASSWORD"] or None,
            host=given["HOST"] or None,
            port=int(given["PORT"]) if given["PORT"] else None,
            database=given["NAME"] or None,
        )

    def opened(self, wrapper: Any) -> None:  # noqa: ANN401
        """Let the driver begin transactions, and keep the cursors that Django has chosen."""
        wrapper.set_autocommit(False)
        wrapper.django_cursors = wrapper.connection.cursor_factory
        self.take_back(wrapper)

    def connected(self, driver: DBAPIConnection) -> None:
        """Do nothing."""

    def lend(self, wrapper: Any) -> None:  # noqa: ANN401
        """Use the cursors of Django."""
        wrapper.connection.cursor_factory = wrapper.django_cursors

    def take_back(self, wrapper: Any) -> None:  # noqa: ANN401
        """Use the cursors of the driver."""
        import psycopg

        wrapper.connection.cursor_factory = psycopg.Cursor


class SqliteHabits:
    """SQLAlchemy registers functions of its own, such as REGEXP, which Django's lookups use on numbers too."""

    def url(self, given: Mapping[str, Any]) -> URL:
        """Name the file."""
        return URL.create("sqlite", database=str(given["NAME"]))

    def opened(self, wrapper: Any) -> None:  # noqa: ANN401
        """Do nothing: the engine begins transactions, so the driver stays in autocommit."""

    def connected(self, driver: DBAPIConnection) -> None:
        """Register Django's functions anew."""
        from django.db.backends.sqlite3._functions import register

        register(driver)

    def lend(self, wrapper: Any) -> None:  # noqa: ANN401
        """Do nothing."""

    def take_back(self, wrapper: Any) -> None:  # noqa: ANN401
        """Do nothing."""


_HABITS: Final[Mapping[Dialect, DriverHabits]] = {
    dialects.POSTGRESQL: PsycopgHabits(),
    dialects.SQLITE: SqliteHabits(),
}


def habits_of(wrapper: Any) -> DriverHabits:  # noqa: ANN401
    """Return the habits of Django's driver; raise `ConfigurationError` unless the database is PostgreSQL or SQLite."""
    if wrapper.vendor not in dialects.DIALECTS:
        raise ConfigurationError(
            f"lrq works with SQLite and PostgreSQL, but the database {wrapper.alias!r} of Django is {wrapper.vendor}: "
            "name another alias in LRQ['DATABASE']"
        )
    return _HABITS[dialects.named(wrapper.vendor)]
