"""Loggers: events with fields, through the standard `logging`, so that an embedding application stays in charge."""

import logging

import structlog
from structlog.stdlib import BoundLogger


def logger(name: str) -> BoundLogger:
    """Return the logger *name*; what it is given is written as `event field=value …`, never a payload."""
    bound: BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        wrapper_class=BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["event"], drop_missing=True),
        ],
        cache_logger_on_first_use=False,
    )
    return bound
