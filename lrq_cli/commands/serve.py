"""`lrq serve`."""

import os
import signal
import threading
from enum import StrEnum
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from lrq_cli.options import Config, Database, Json, Site

if TYPE_CHECKING:
    from lr_server import LogReplicationServer


class Level(StrEnum):
    """What is worth a log line."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """How a log line looks."""

    TEXT = "text"
    JSON = "json"


class _StopError(BaseException):
    """A signal asked the server to stop."""


def serve(
    config: Config = None,
    database: Database = None,
    site: Site = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            "-l",
            metavar="ENDPOINT",
            help="tcp://host:port, tls://host:port or ipc:///path; may be repeated.",
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", "-p", metavar="SITE=ENDPOINT", help="Another site; may be repeated."),
    ] = None,
    log_level: Annotated[Level, typer.Option("--log-level", help="The least that is logged, to stderr.")] = Level.INFO,
    log_format: Annotated[Format, typer.Option("--log-format", help="How it is logged.")] = Format.TEXT,
    as_json: Json = False,
) -> None:
    """Run the site's server in the foreground, until SIGTERM or Ctrl-C.

    Its first line on stdout tells where it listens, with real ports. Of several servers of one site one works; the
    others stand by, say so, and take over when it is gone. Options replace what the file and the variables say.
    """
    from sqlalchemy import make_url

    from lr_server import LogReplicationServer, Settings
    from lrq_cli.collector import spare_collector
    from lrq_cli.logs import log_to_stderr
    from lrq_cli.place import require_file

    log_to_stderr(log_level.value, as_json=log_format is Format.JSON)
    options = {"database_url": database, "site_id": site, "listen": listen, "peers": _peers(peer)}
    settings = Settings.load(config, **{name: value for name, value in options.items() if value})
    require_file(make_url(settings.database_url))
    server = LogReplicationServer(settings)
    _stop_on_signals()
    try:
        server.start()
        spare_collector()
        _announce(server, settings.site_id, as_json=as_json)
        threading.Event().wait()
    except _StopError:
        pass
    finally:
        server.stop()


def _peers(given: list[str] | None) -> dict[str, str]:
    peers = {}
    for pair in given or ():
        name, separator, endpoint = pair.partition("=")
        if not separator:
            raise typer.BadParameter(f"--peer {pair}: write SITE=ENDPOINT, such as tokyo=tcp://10.0.0.2:7400")
        peers[name] = endpoint
    return peers


def _announce(server: "LogReplicationServer", site: str, *, as_json: bool) -> None:
    import json

    from lrq_cli.status_tables import owner_words

    status = server.status()
    role = status["server"]
    if as_json:
        facts = {name: role[name] for name in ("endpoints", "metrics", "owner", "reason")}
        line = json.dumps({"site": site, "pid": os.getpid()} | facts)
    else:
        where = f"listens at {', '.join(role['endpoints'])}" if role["endpoints"] else "listens nowhere, it only sends"
        line = f"{site} (pid {os.getpid()}) {where}"
        if role["metrics"]:
            line += f"; metrics at http://{role['metrics']}/metrics"
        if not role["owner"]:
            owner = next((each["owner"] for each in status["owners"] if each["lease"] == "server"), "")
            line += f"; stands by, because {owner_words(owner) or 'somebody'} works for the site"
    typer.echo(line)


def _stop_on_signals() -> None:
    """Let the first SIGTERM or SIGINT raise `_StopError` here, and a second one end the process at once."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        raise _StopError

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
