"""Loggers: events with fields, through the standard `logging`, so that an embedding application stays in charge."""

import logging
from collections.abc import Mapping
from typing import Any, Final

import structlog
from structlog.stdlib import BoundLogger

#: The attribute of a `logging.LogRecord` that holds the fields as they are, for formatters that can show them.
FIELDS: Final = "lrq_fields"

_text = structlog.processors.KeyValueRenderer(key_order=["event"], drop_missing=True)


def logger(name: str) -> BoundLogger:
    """Return the logger *name*; what it is given is written as `event field=value …`, never a payload."""
    bound: BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        wrapper_class=BoundLogger,
        processors=[structlog.stdlib.filter_by_level, structlog.processors.format_exc_info, _both],
        cache_logger_on_first_use=False,
    )
    return bound


def errors_only(name: str) -> logging.Logger:
    """Return the logger *name* for a library that warns of what is as it should be."""
    quiet = logging.getLogger(name)
    quiet.setLevel(logging.ERROR)
    return quiet


def _both(target: logging.Logger, method: str, fields: Any) -> tuple[tuple[str], Mapping[str, Any]]:  # noqa: ANN401
    """Hand the event to `logging` as a text and as fields."""
    kept = dict(fields)
    return (str(_text(target, method, fields)),), {"extra": {FIELDS: kept}}
