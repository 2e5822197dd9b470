"""`lrq work`."""

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
    from lrq.cli.waits.applied import QueueProgress
    from lrq.cli.worker import Worker


def work(
    listener: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODULE:LISTENER",
            help="A listener, a function with @lrq.listener, or a function without parameters that returns a listener.",
        ),
    ] = None,
    copy: Annotated[
        list[str] | None,
        typer.Option(
            "--copy",
            metavar="CLIENT:TABLE,...",
            help="Copy these followed tables of the client; TABLE=COPY gives another name at this site.",
        ),
    ] = None,
    source_column: Annotated[
        str | None,
        typer.Option("--source-column", metavar="NAME", help="With --copy: the column with the source of each row."),
    ] = None,
    greatest: Annotated[
        str | None,
        typer.Option(
            "--greatest",
            metavar="NAME,...",
            help="With --copy: the row with the greater values in these columns stays.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", metavar="", help="Apply everything that is there now, then end.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", "-t", metavar="SECONDS", min=0, help="With --once: how long at most; default 3600."),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there.")
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
    """Apply received entries with listeners of your application, until SIGTERM or Ctrl-C.

    `--copy shop:public.orders` needs no listener of yours: the copy becomes equal to the table that the source follows.

    Modules are also found in the working directory. A signal lets the running call finish; a second signal ends the
    process at once. If several workers run for one client, one works; the others stand by and take over.

    Exit code 3 with --once means that an entry was refused or parked, or not applied in time. A database that is away
    for less than a minute does not end the run.
    """
    from discovery.object_reference import parse_reference
    from lrq.cli.application_objects import listeners_of
    from lrq.cli.copies import copied_tables, require_copies
    from lrq.cli.logs import log_to_stderr
    from lrq.cli.place import opened, worker_pool
    from lrq.cli.process.stop_signals import StopSignals
    from lrq.cli.process.thread_stacks import show_stacks_on_signal
    from lrq.cli.waits.applied import look
    from lrq.cli.worker import Worker, present_targets
    from queues.errors import UsageError

    references = [parse_reference(each) for each in listener or ()]
    copies = copied_tables(copy or (), source_column, greatest)
    if not references and not copies:
        raise UsageError("no listener is named: write MODULE:LISTENER, or --copy CLIENT:TABLE")
    if timeout is not None and not once:
        raise UsageError("--timeout belongs to --once: without --once a signal ends the work")
    log_to_stderr(log_level.value, as_json=log_format is Format.JSON)
    show_stacks_on_signal()
    pool = worker_pool(max_connections)
    place = opened(config, database, site, pool=pool, role="worker", wait=await_tables)
    with may_run_again(once=once), place as here:
        listeners = listeners_of(references, copies)
        require_copies(here.engine, listeners.values())
        signals = StopSignals()
        wanted = present_targets(here.engine, listeners) if once else []
        with Worker(here.engine, listeners, metrics=metrics) as worker:
            if not once:
                _announce(worker, here.site, list(listeners), as_json=as_json)
                worker.until_stopped(signals)
                return
            limit = 3600.0 if timeout is None else timeout
            worker.until_applied(signals, wanted, limit)
            reasons = worker.standing_by()
        found = look(here.engine, wanted)
    _report(worker, here.site, as_json=as_json)
    when = "stopped by a signal" if signals.asked else f"not applied after {limit:g} s"
    problem = _problem(found, when, reasons)
    if problem:
        raise NoError(problem)


def _announce(worker: "Worker", site: str, clients: list[str], *, as_json: bool) -> None:
    import json

    if as_json:
        facts = {"site": site, "pid": os.getpid(), "clients": clients, "metrics": worker.metrics_address}
        typer.echo(json.dumps(facts))
        return
    served = f"; metrics at http://{worker.metrics_address}/metrics" if worker.metrics_address else ""
    typer.echo(f"{site} (pid {os.getpid()}) listens to {', '.join(clients)}{served}")


def _problem(found: "list[QueueProgress]", when: str, reasons: list[str]) -> str:
    """Return the sentence that explains exit code 3; empty if everything is applied."""
    from lrq.cli.words import plural

    refused = [f"{each.name}: {each.refusal}" for each in found if each.refusal]
    if refused:
        return "; ".join(refused)
    late = [each.words() for each in found if not each.reached]
    if late:
        return f"{when}: {'; '.join([*late, *reasons])}"
    parked = sum(each.parked for each in found)
    words = plural(parked, "transaction was", "transactions were")
    return f"{words} refused and parked: see `lrq park list`" if parked > 0 else ""


def _report(worker: "Worker", site: str, *, as_json: bool) -> None:
    from lrq.cli.output import emit
    from lrq.cli.words import plural

    if as_json:
        emit({"site": site, "applied": worker.applied})
        return
    for client, count in worker.applied.items():
        typer.echo(f"{client}: {plural(count, 'entry', 'entries')} applied")
