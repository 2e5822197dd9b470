"""`lrq serve`."""

import gc
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lrq.cli.options import Config, Database, Format, Json, Level, LogFormat, LogLevel, Site

if TYPE_CHECKING:
    from lr_server import LogReplicationServer, Settings


#: The longest run of `--once`, in seconds.
_LONGEST_RUN: Final = 3_600.0
#: The new objects before a collection, and the collections before one of the next generation. Few objects need it.
_COLLECT_AFTER: Final = (50_000, 20, 50)


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
    attach: Annotated[
        list[str] | None,
        typer.Option(
            "--attach", metavar="SITE=ENDPOINT", help="A source that cannot reach this site; may be repeated."
        ),
    ] = None,
    init: Annotated[
        bool, typer.Option("--init", metavar="", help="First create or migrate the tables, as `lrq init` does.")
    ] = False,
    once: Annotated[
        bool,
        typer.Option("--once", metavar="", help="Deliver everything that is committed now, then end."),
    ] = False,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="POSITION",
            help="Deliver everything up to a token of transmit, or up to BRANCH@NUMBER of the log; then end.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            "-t",
            metavar="SECONDS",
            min=0,
            help="With --once or --until: how long at most; default 3600.",
        ),
    ] = None,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
    as_json: Json = False,
) -> None:
    """Run the site's server in the foreground, until SIGTERM or Ctrl-C. SIGHUP makes the server read its peers again.

    The first line on stdout names the endpoints, with actual ports. Several servers of one site share the work; each
    takes over when another ends. Options replace settings of the file and the variables.

    With --once the server ends with exit code 0 once every site durably has everything that is committed now.
    Exit code 3: not all is delivered in time, a signal came, or (retry_forever = false) a site cannot be reached. A
    database that is away for less than a minute does not end the run.
    """
    from sqlalchemy import make_url

    from lr_server import LogReplicationServer, Settings
    from lrq.cli.exit_codes import NoError
    from lrq.cli.logs import log_to_stderr
    from lrq.cli.place import require_file
    from lrq.cli.process.server_signals import ServerSignals, StopError
    from lrq.cli.process.service_manager import ServiceManager
    from lrq.cli.process.thread_stacks import show_stacks_on_signal
    from queues.errors import UsageError

    if timeout is not None and not (once or until):
        raise UsageError("--timeout belongs to --once or --until: without them a signal ends the server")
    log_to_stderr(log_level.value, as_json=log_format is Format.JSON)
    show_stacks_on_signal()
    options = {"database_url": database, "site_id": site, "listen": listen, "peers": _sites("--peer", peer)}
    options["attach"] = _sites("--attach", attach)
    given = {name: value for name, value in options.items() if value}
    settings = Settings.load(config, **given)
    if init:
        _initialize(settings.database_url, settings.site_id)
    require_file(make_url(settings.database_url))
    server = LogReplicationServer(settings, reread=lambda: Settings.load(config, **given))
    manager = ServiceManager(os.environ)
    signals = ServerSignals()
    try:
        server.start()
        spare_collector()
        _announce(server, settings, as_json=as_json)
        manager.ready(f"site {settings.site_id}", lambda: not server.stuck_loops())
        if once or until:
            signals.reload_meanwhile(server.reload_peers)
            _deliver(server, until, _LONGEST_RUN if timeout is None else timeout, as_json=as_json)
            return
        signals.serve(server.reload_peers)
    except StopError:
        if once or until:
            # The caller of such a run must not take the entries for delivered.
            raise NoError("a signal ended the run before everything was delivered: run it again") from None
    finally:
        signals.spare_end()
        manager.stopping()
        server.stop()


def _deliver(server: "LogReplicationServer", until: str | None, timeout: float, *, as_json: bool) -> None:
    """Wait until all peers have the entries; raise `NoError` if they have not in time, or cannot be reached."""
    from lrq.cli import health
    from lrq.cli.exit_codes import NoError, may_run_again
    from lrq.cli.output import emit
    from queues.clock import SYSTEM_CLOCK
    from queues.errors import PeerUnreachableError, WaitTimeoutError

    began = SYSTEM_CLOCK.monotonic()
    try:
        with may_run_again(once=True):
            server.drain(timeout, until=until)
    except (PeerUnreachableError, WaitTimeoutError) as error:
        raise NoError(str(error)) from error
    seconds = round(SYSTEM_CLOCK.monotonic() - began, 3)
    # A run waits for peers only.
    for sentence in health.unknown(server.site_status().log.unknown):
        typer.echo(f"lrq: warning: {sentence}", err=True)
    if as_json:
        emit({"delivered": True, "seconds": seconds})
    else:
        typer.echo(f"delivered everything{f' up to {until}' if until else ''} in {seconds:.1f} s")


def _initialize(url: str, site: str) -> None:
    import queues
    from lrq.cli.place import SitePlace, engine_of
    from queues.database.urls import parse

    with engine_of(SitePlace(parse(url), None), must_exist=False) as engine:
        queues.initialize(engine, site_id=site)


def spare_collector() -> None:
    """Exclude all present objects from garbage collection, and collect seldom: they live as long as the server.

    A full collection would stop every session for 54 ms (measured), the time for a few thousand rows. With Python's own
    thresholds, collections took a quarter of the server's time under a load of requests that wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def _sites(option: str, given: list[str] | None) -> dict[str, str]:
    found = {}
    for pair in given or ():
        name, separator, endpoint = pair.partition("=")
        if not separator:
            raise typer.BadParameter(f"{option} {pair}: write SITE=ENDPOINT, such as tokyo=tcp://10.0.0.2:7400")
        found[name] = endpoint
    return found


def _announce(server: "LogReplicationServer", settings: "Settings", *, as_json: bool) -> None:
    import json

    from lrq.cli.views.status_tables import owner_words

    role = server.server_status()
    if as_json:
        told = role.as_json()
        facts = {name: told[name] for name in ("name", "endpoints", "metrics", "owner", "ranges", "reason")}
        line = json.dumps({"site": settings.site_id, "pid": os.getpid()} | facts)
    else:
        line = f"{settings.site_id} (pid {os.getpid()}) {_where(role.endpoints, settings.attach)}"
        if role.metrics:
            line += f"; metrics at http://{role.metrics}/metrics"
        if role.ring is not None:
            line += f"; rank {role.ring.rank} of a ring"
        elif not role.owner:
            owner = server.site_status().server_owner
            line += f"; shares the work: {owner_words(owner.owner) if owner else 'another server'} takes the ticks"
    typer.echo(line)


def _where(endpoints: Sequence[str], attach: Collection[str]) -> str:
    """Return where a server listens, and the sources that it attaches itself to."""
    if not (endpoints or attach):
        return "listens nowhere, it only sends"
    listens = f"listens at {', '.join(endpoints)}" if endpoints else "listens nowhere"
    return f"{listens}, and attaches itself to {', '.join(sorted(attach))}" if attach else listens
