"""Loggers that write events with fields through the standard `logging`, so that the application decides on handlers."""

import logging
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from queues.words import cleaned, traced

#: The attribute of a `logging.LogRecord` with the fields as values, for formatters that show them.
FIELDS: Final = "lrq_fields"

#: The longest text in a field, in characters; tracebacks have a limit of their own.
_LONGEST: Final = 2_000

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class EventLogger:
    """Writes each event as `event='...' field=value ...`; a field never holds a payload.

    The module needs only the standard library, because a sender imports it.
    """

    __slots__ = ("_bound", "_logger")

    def __init__(self, target: logging.Logger, bound: Mapping[str, object] = _NOTHING) -> None:
        self._logger = target
        self._bound = bound

    def bind(self, **fields: object) -> "EventLogger":
        """Return a logger that adds *fields* to every event."""
        return EventLogger(self._logger, {**self._bound, **fields})

    def debug(self, event: str, **fields: object) -> None:
        """Write *event* for developers."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Write *event*: expected progress."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, *, exc_info: bool | BaseException = False, trace: str = "", **fields: object) -> None:
        """Write *event*: a failure that lrq repairs or retries.

        *exc_info* adds the traceback of that error; True, the traceback of the current exception. *trace* adds a
        traceback of `facts_of`, which has no messages.
        """
        self._write(logging.WARNING, event, fields, exc_info=exc_info, trace=trace)

    def error(self, event: str, *, trace: str = "", **fields: object) -> None:
        """Write *event*: a failure that an operator must repair; *trace* as for `warning`."""
        self._write(logging.ERROR, event, fields, trace=trace)

    def exception(self, event: str, **fields: object) -> None:
        """Write *event* as an error, with the traceback of the current exception."""
        self._write(logging.ERROR, event, fields, exc_info=True)

    def _write(
        self,
        level: int,
        event: str,
        fields: Mapping[str, object],
        *,
        exc_info: bool | BaseException = False,
        trace: str = "",
    ) -> None:
        if not self._logger.isEnabledFor(level):
            return
        shown = {name: _shown(value) for name, value in {"event": event, **self._bound, **fields}.items()}
        error = exc_info if isinstance(exc_info, BaseException) else sys.exception() if exc_info else None
        if error is not None or trace:
            shown["exception"] = traced(error) if error is not None else trace
        text = " ".join(f"{name}={value!r}" for name, value in shown.items())
        # `stacklevel` 3: the record names the module that called `info`, `warning` or another public method.
        self._logger.log(level, "%s", text, extra={FIELDS: shown}, stacklevel=3)


def _shown(value: object) -> object:
    return cleaned(value, _LONGEST) if type(value) is str else value


def logger(name: str) -> EventLogger:
    """Return an `EventLogger` for the standard logger *name*."""
    return EventLogger(logging.getLogger(name))


def errors_only(name: str) -> logging.Logger:
    """Return the standard logger *name* limited to errors, for a library whose warnings report intended behaviour."""
    quiet = logging.getLogger(name)
    quiet.setLevel(logging.ERROR)
    return quiet
