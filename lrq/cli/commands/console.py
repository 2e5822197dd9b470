"""`lrq console`."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lrq.cli.options import Format, Level, LogFormat, LogLevel

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from lr_server.settings import Settings
    from lrq.cli.place import SitePlace

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
#: Connections of the console to one site: its watch and the threads of its pages.
_POOL: Final = {"pool_size": 2, "max_overflow": 3}


def console(
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", "-c", metavar="FILE", help="A site's lrq.toml; may be repeated."),
    ] = None,
    database: Annotated[
        list[str] | None,
        typer.Option("--database", "-d", metavar="URL", help="A site's database; may be repeated."),
    ] = None,
    listen: Annotated[str, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Serve pages there.")] = (
        "127.0.0.1:8080"
    ),
    allow_actions: Annotated[
        bool,
        typer.Option("--allow-actions", metavar="", help="Allow retry, discard, park, cancel, request, replay."),
    ] = False,
    show_payloads: Annotated[
        bool, typer.Option("--show-payloads", metavar="", help="Show payloads, not only their sizes.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="A file with a secret to ask for; needed unless HOST is a loopback."
        ),
    ] = None,
    decoder: Annotated[
        list[str] | None,
        typer.Option("--decoder", metavar="MODULE:FUNCTION", help="Turns payloads into text; may be repeated."),
    ] = None,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> None:
    """Serve web pages about one site or several, until SIGTERM or Ctrl-C.

    Pages only read unless `--allow-actions` is given. A site that does not answer blocks no other.
    """
    from queues.extras import require_libraries

    require_libraries("console", "the console", ("starlette", "jinja2", "uvicorn"))
    from lrq.cli.logs import log_to_stderr
    from lrq.cli.process.thread_stacks import show_stacks_on_signal
    from lrq.console.process import checked_address, decoders_of, read_token, serve_pages
    from queues.errors import UsageError

    host, port = checked_address(listen)
    token = None if token_file is None else read_token(token_file)
    if token is None and host not in _LOOPBACK:
        raise UsageError(f"{host} is no loopback address: give --token-file, so that the console asks for a secret")
    log_to_stderr(log_level.value, as_json=log_format is Format.JSON)
    show_stacks_on_signal()
    with ExitStack() as stack:
        places = _places(config or [], database or [])
        engines = _engines(stack, places)
        options: dict[str, Any] = {
            "allow_actions": allow_actions,
            "show_payloads": show_payloads,
            "token": token,
            "decoders": decoders_of(decoder or []),
            "hosts": _LOOPBACK if token is None else (),
            "rings": _rings(places, config or ([] if database else [None])),
        }
        serve_pages(engines, host, port, options)


def _places(configs: Sequence[Path], databases: Sequence[str]) -> "list[SitePlace]":
    """Return the places of all sites: those with a file first, and that of the working directory without any."""
    from lrq.cli.place import locate

    places = [locate(each, None, None) for each in configs] + [locate(None, each, None) for each in databases]
    return places or [locate(None, None, None)]


def _rings(places: "Sequence[SitePlace]", configs: Sequence[Path | None]) -> "dict[str, Settings]":
    """Return the settings of each site with a table `[ring]`, by site; the files are those of the first places."""
    from lr_server.settings import Settings

    found: dict[str, Settings] = {}
    for config, place in zip(configs, places, strict=False):
        if "ring" in place.written and str(place.site) not in found:
            found[str(place.site)] = Settings.load(config, database_url=place.url.render_as_string(hide_password=False))
    return found


def _engines(stack: ExitStack, places: "Sequence[SitePlace]") -> "dict[str, Engine]":
    """Return an engine for each site; a database that does not answer now is shown as such later."""
    from sqlalchemy import event

    from lrq.cli.place import engine_of, require_file
    from queues.errors import UsageError

    found: dict[str, Engine] = {}
    for number, place in enumerate(places, 1):
        name = place.site if place.site and place.site not in found else f"site {number}"
        # The query counts: it may hold the host, or the schema.
        if place.url in [each.url for each in places[: number - 1]]:
            raise UsageError(f"{place.shown} is named twice: name each site once")
        engine = stack.enter_context(engine_of(place, must_exist=False, pool=_POOL, role="console"))
        # A missing file is a site without an answer, and no connection may make an empty one.
        event.listen(engine, "do_connect", lambda *_, url=place.url: require_file(url))
        found[name] = engine
    return found
