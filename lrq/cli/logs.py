"""Write the server's log to stderr, as events with fields."""

import json
import logging
import sys
from typing import Any, Final

from structlog.dev import ConsoleRenderer, plain_traceback

from lrq.cli.words import printable
from queues.clock import iso
from queues.logs import FIELDS
from queues.words import traced

#: The ends of psycopg's warnings after an error in a statement with many rows, which is raised anyway.
_RAISED_ANYWAY: Final = ("the connection is lost", "pipeline aborted")


def log_to_stderr(level: str, *, as_json: bool) -> None:
    """Log events of *level* and above to stderr; other libraries log warnings and errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_is_news)
    handler.setFormatter(_JsonLines() if as_json else _Text(colors=sys.stderr.isatty()))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for package in ("lrq", "lr_client", "lr_server"):
        logging.getLogger(package).setLevel(level.upper())


def _is_news(record: logging.LogRecord) -> bool:
    """Tell whether a record says more than an error that its cause raises anyway. Pure.

    psycopg warns once more of an error, or of a lost connection, during a statement with many rows.
    """
    said = record.getMessage() if record.name == "psycopg" else ""
    return not (said.startswith("error ignored terminating <psycopg.Pipeline") and said.endswith(_RAISED_ANYWAY))


class _JsonLines(logging.Formatter):
    """Formats each event as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one event."""
        return json.dumps(_fields(record), default=str)


class _Text(logging.Formatter):
    """Formats each event as a readable line."""

    def __init__(self, *, colors: bool) -> None:
        super().__init__()
        # Tracebacks omit the values of variables, which may be payloads and passwords.
        self._renderer = ConsoleRenderer(
            colors=colors, exception_formatter=plain_traceback, pad_event_to=24, sort_keys=False
        )

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one event."""
        fields = _fields(record)
        shown = {
            name: printable(value) if name != "exception" and isinstance(value, str) else value
            for name, value in fields.items()
        }
        return str(self._renderer(None, record.levelname.lower(), shown))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "timestamp": iso(int(record.created * 1_000_000)),
        "level": record.levelname.lower(),
        "logger": record.name,
        **getattr(record, FIELDS, {"event": record.getMessage()}),
    }
    if record.exc_info and record.exc_info[1] is not None:
        # The later lines of a message may hold a statement with its values, for example those of SQLAlchemy.
        fields["exception"] = traced(record.exc_info[1])
    return fields
