"""Raise lrq's errors for the errors of drivers and of Django, with the cause attached."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from queues.errors import LrqError
from queues.send_log.call_errors import call_error


@contextmanager
def mapped_driver_errors() -> Iterator[None]:
    """Turn errors of the driver into errors of lrq where lrq knows the cure; others pass, and SQLAlchemy's own too.

    Raises the errors of `queues.send_log.call_errors.call_error`.
    """
    try:
        yield
    except (LrqError, SQLAlchemyError):
        raise
    except Exception as error:
        mapped = call_error(error)
        if mapped is None:
            raise
        raise mapped from error
