"""An engine over the one open connection of a driver, which an application owns."""

from typing import Any

from sqlalchemy import Engine, NullPool, create_engine


def engine_over(url: str, driver: object, **options: Any) -> Engine:  # noqa: ANN401 - passed on unchanged
    """Return an engine of the database of *url*, whose every connection is *driver*, an open connection.

    The engine never commits, rolls back or closes *driver*, and installs nothing on it.
    """
    return create_engine(url, creator=lambda: _Borrowed(driver), poolclass=NullPool, hide_parameters=True, **options)


class _Borrowed:
    """A driver's connection without the power to end or change it: these calls of SQLAlchemy do nothing."""

    def __init__(self, driver: object) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> object:
        return getattr(self._driver, name)

    def commit(self) -> None:
        """Do nothing: the application commits."""

    def rollback(self) -> None:
        """Do nothing: the application rolls back."""

    def close(self) -> None:
        """Do nothing: the application closes."""

    def create_function(self, *_given: object, **_options: object) -> None:
        """Do nothing: the application may have a function of that name."""

    def add_notice_handler(self, _handler: object) -> None:
        """Do nothing: the application reads notices itself."""
