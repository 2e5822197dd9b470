"""Run the console's pages in this process with uvicorn."""

import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import typer
import uvicorn
from sqlalchemy import Engine

from discovery.object_reference import find_object, parse_reference
from lrq.console.application import app
from queues.errors import ConfigurationError, UsageError
from queues.thread_lack import NO_THREAD
from queues.thread_room import can_start


def checked_address(listen: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT; raise `UsageError` for anything else."""
    host, separator, port = listen.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--listen {listen}: write HOST:PORT, such as 127.0.0.1:8080")
    return host.strip("[]"), int(port)


def read_token(file: Path) -> str:
    """Return the secret in *file*; raise `ConfigurationError` for an unreadable or an empty file."""
    try:
        token = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the token file {file} cannot be read: {error}") from error
    if not token:
        raise ConfigurationError(f"the token file {file} is empty: write a secret of 16 characters or more into it")
    return token


def decoders_of(references: Sequence[str]) -> list[Callable[[bytes], str | None]]:
    """Return the functions that *references* name; raise `UsageError` for one that is no function."""
    found: list[Callable[[bytes], str | None]] = []
    for text in references:
        decoder = find_object(parse_reference(text))
        if not callable(decoder):
            raise UsageError(f"--decoder {text}: name a function from bytes to a text or None")
        found.append(cast("Callable[[bytes], str | None]", decoder))
    return found


class _Server(uvicorn.Server):
    """Tells the address once the pages are served."""

    async def startup(self, sockets: Any = None) -> None:  # noqa: ANN401 - as in the base
        await super().startup(sockets)
        for server in self.servers:
            for socket in server.sockets:
                host, port = socket.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                typer.echo(f"console at http://{shown}:{port}/")


def _is_not_told_later(record: logging.LogRecord) -> bool:
    return not isinstance(record.msg, OSError)


def serve_pages(engines: Mapping[str, Engine], host: str, port: int, options: Mapping[str, Any]) -> None:
    """Serve the console until SIGTERM or Ctrl-C; *options* are those of `console.app`.

    Raises `ConfigurationError` if the address cannot be had, or a thread for each site and one for pages.
    """
    if not can_start(len(engines) + 1):
        raise ConfigurationError(NO_THREAD)
    application = app(engines, **options)
    config = uvicorn.Config(
        application, host=host, port=port, log_level="warning", access_log=False, lifespan="on",
        limit_concurrency=200, timeout_graceful_shutdown=3, server_header=False, ws="none",
        # uvicorn's own lines would be no JSON, and would repeat the messages of errors.
        log_config=None,
    )  # fmt: skip
    server = _Server(config)
    logging.getLogger("uvicorn.error").addFilter(_is_not_told_later)
    # uvicorn repeats the signal that has ended it, and the command ends well.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    # uvicorn ends the process when it cannot have the address.
    with suppress(SystemExit):
        server.run()
    if not server.started:
        raise ConfigurationError(f"the console cannot listen at {host}:{port}: choose another port with --listen")
