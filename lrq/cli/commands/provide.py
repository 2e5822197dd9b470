"""`lrq provide`."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from lrq.cli.exit_codes import NoError, may_run_again
from lrq.cli.options import (
    AwaitTables,
    Config,
    Database,
    Format,
    Json,
    Level,
    LogFormat,
    LogLevel,
    MaxConnections,
    Site,
)

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from lr_client.snapshot.requests import SnapshotTransmitter
    from lrq.cli.process.stop_signals import StopSignals
    from lrq.cli.waits.provided import WantedSnapshots
    from queues.names import ClientName


def provide(
    client: Annotated[str, typer.Option("--client", metavar="NAME", help="The application stream, such as policy.")],
    provider: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:PROVIDER",
            help="A provider, a function (context), or a function without parameters that returns a provider.",
        ),
    ] = None,
    followed: Annotated[
        bool, typer.Option("--followed", metavar="", help="Provide the rows of the tables that the client follows.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", metavar="", help="Serve the snapshots that are requested now, then end.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", "-t", metavar="SECONDS", min=0, help="With --once: how long at most; default 3600."),
    ] = None,
    max_connections: MaxConnections = 20,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    await_tables: AwaitTables = 10.0,
    as_json: Json = False,
) -> None:
    """Serve the snapshot requests of one client with a provider of your application, until SIGTERM or Ctrl-C.

    Modules are also found in the working directory. A signal cancels the snapshots under way, and the next provider
    begins them again. A second signal ends the process at once. Several processes of one client take turns.
    With fewer than 5 connections, one snapshot is built at a time.

    Exit code 3 with --once means that a snapshot failed three times, or was not complete in time. A database that is
    away for less than a minute does not end the run.
    """
    from discovery.object_reference import parse_reference
    from lr_client.sender import RoutingQueueSenderClient
    from lr_client.snapshot.followed_tables import FollowedTables
    from lrq.cli.application_objects import named_provider
    from lrq.cli.logs import log_to_stderr
    from lrq.cli.place import max_payload_bytes, opened, provider_pool
    from lrq.cli.process.stop_signals import StopSignals
    from lrq.cli.process.thread_stacks import show_stacks_on_signal
    from lrq.cli.waits.provided import WantedSnapshots, pending
    from queues.errors import UsageError

    if (provider is None) is not followed:
        raise UsageError("name one provider: write MODULE:PROVIDER, or --followed")
    reference = None if provider is None else parse_reference(provider)
    if timeout is not None and not once:
        raise UsageError("--timeout belongs to --once: without --once a signal ends the work")
    log_to_stderr(log_level.value, as_json=log_format is Format.JSON)
    show_stacks_on_signal()
    pool, builds = provider_pool(max_connections)
    place = opened(config, database, site, pool=pool, role="provider", wait=await_tables)
    with may_run_again(once=once), place as here:
        sender = RoutingQueueSenderClient(client, max_payload_bytes=max_payload_bytes(here.place))
        found = FollowedTables() if reference is None else named_provider(reference)
        signals = StopSignals()
        wanted = WantedSnapshots(pending(here.engine, sender.client_name))
        with sender.start_snapshot_transmitter(here.engine, found, parallel=builds) as transmitter:
            if once:
                seconds = 3600.0 if timeout is None else timeout
                wanted = _until_provided(here.engine, sender.client_name, wanted, signals, seconds)
            else:
                _announce(here.site, client, as_json=as_json)
                _until_stopped(transmitter, client, signals)
        if once:
            when = "stopped by a signal" if signals.asked else f"not provided after {seconds:g} s"
            _report(here.engine, here.site, sender.client_name, wanted, when, as_json=as_json)


def _announce(site: str, client: str, *, as_json: bool) -> None:
    import json

    if as_json:
        typer.echo(json.dumps({"site": site, "pid": os.getpid(), "client": client}))
    else:
        typer.echo(f"{site} (pid {os.getpid()}) provides snapshots of {client}")


def _until_stopped(transmitter: "SnapshotTransmitter", client: str, signals: "StopSignals") -> None:
    from queues.logs import logger

    log = logger("lrq.provide")
    told: bool | None = None
    while not signals.asked:
        active = transmitter.active
        if active is not None and active is not told:
            told = active
            log.info("snapshot provider", client=client, state="owner" if active else "standing by")
        signals.rest()


def _until_provided(
    engine: "Engine", client: "ClientName", wanted: "WantedSnapshots", signals: "StopSignals", seconds: float
) -> "WantedSnapshots":
    """Wait until every request is served or has failed too often; return the requests of single sites."""
    from lrq.cli.waits.provided import pending
    from queues.clock import SYSTEM_CLOCK
    from queues.patience import patiently

    look = patiently(lambda: pending(engine, client), lambda _: None)
    deadline = SYSTEM_CLOCK.monotonic() + seconds
    while not signals.asked:
        now = look()
        if now is not None:
            wanted = wanted.expanded(now)
            if not wanted.left(now) or wanted.failures(now):
                break
        if SYSTEM_CLOCK.monotonic() >= deadline:
            break
        signals.rest()
    return wanted


def _report(
    engine: "Engine", site: str, client: "ClientName", wanted: "WantedSnapshots", when: str, *, as_json: bool
) -> None:
    """Print how many snapshots are published; raise `NoError` if one is missing."""
    from lrq.cli.output import emit
    from lrq.cli.waits.provided import pending, provided
    from lrq.cli.words import plural, some
    from queues.send_snapshot import EVERY_SITE

    count = provided(engine, wanted)
    if as_json:
        emit({"site": site, "client": client, "provided": count})
    else:
        typer.echo(f"{client}: {plural(count, 'snapshot')} provided")
    now = pending(engine, client)
    failed = [f"the snapshot for {each.destination} has failed ({each.error})" for each in wanted.failures(now)]
    if failed:
        raise NoError("; ".join(failed))
    left = wanted.left(now)
    if any(each.destination == EVERY_SITE for each in left):
        raise NoError(f"{when}: the request for every site waits for the site's server, run `lrq serve`")
    if left:
        raise NoError(f"{when}: {some([each.destination for each in left])}")
