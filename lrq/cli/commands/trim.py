"""`lrq trim`."""

from typing import Annotated

import typer

from lrq.cli.exit_codes import Exit
from lrq.cli.options import Config, Database, Json, Site


def trim(
    retention_seconds: Annotated[
        float | None,
        typer.Option(
            "--retention-seconds", metavar="N", min=0, help="Keep entries N seconds for sites that lack them."
        ),
    ] = None,
    retention_bytes: Annotated[
        int | None,
        typer.Option("--retention-bytes", metavar="N", min=0, help="Keep N bytes of payload for sites that lack it."),
    ] = None,
    rotate: Annotated[
        bool,
        typer.Option("--rotate", metavar="", help="Begin a new segment first, so that the current one can be trimmed."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Trim nothing; show the segments.")] = False,
    send_unordered: Annotated[
        bool,
        typer.Option(
            "--send-unordered",
            metavar="",
            help="Send all entries without a place in the order of commits now.",
        ),
    ] = False,
    drop_unordered: Annotated[
        bool, typer.Option("--drop-unordered", metavar="", help="Delete such entries, with all records of them.")
    ] = False,
    forget_dropped: Annotated[
        bool,
        typer.Option(
            "--forget-dropped", metavar="", help="Forget the counts of entries dropped for sites that were no peers."
        ),
    ] = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> int:
    """Trim entries that every site has, or that are beyond retention.

    A working server trims by itself, with the retention of its settings; this command then only shows the segments.
    Whole segments are trimmed; a site that lacks entries of a trimmed segment gets a full snapshot.

    Entries written while the ordering trigger was off have no place in the order of commits. No site gets such
    entries, and the exit code is 3, until they are sent or dropped. Both options work beside a server.

    Entries for a site that is no peer are kept for unknown_retention_seconds, then dropped and counted. The exit code
    is 3 while there are such entries or counts.
    """
    from dataclasses import replace

    from lrq.cli.health import blocked_trim, unknown, unordered
    from lrq.cli.manual_trim import (
        decide_unordered,
        forget_dropped_entries,
        known_peers,
        owner_of,
        read_blockers,
        recorded_ordering,
        recorded_unknown,
        run,
    )
    from lrq.cli.output import console, emit
    from lrq.cli.place import opened, settings_of
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.views.trim import counted, trim_facts, trim_view
    from queues.send_log.trim_plan import plan

    if send_unordered + drop_unordered + dry_run > 1:
        raise typer.BadParameter("--send-unordered, --drop-unordered and --dry-run exclude each other")
    with (opened_to_read if dry_run else opened)(config, database, site) as here:
        settings = settings_of(config, here)
        retention = settings.retention(known_peers(here.engine, settings))
        if retention_seconds is not None:
            retention = replace(retention, seconds=retention_seconds)
        if retention_bytes is not None:
            retention = replace(retention, payload_bytes=retention_bytes)
        owner = owner_of(here.engine)
        decided = decide_unordered(here.engine, send=send_unordered, drop=drop_unordered)
        forgotten = forget_dropped_entries(here.engine) if forget_dropped else 0
        done = None if owner or dry_run else run(here.engine, settings, retention, rotate=rotate)
        segments = plan(here.engine, retention)
        ordering = recorded_ordering(here.engine)
        strangers = recorded_unknown(here.engine)
        blockers = read_blockers(here.engine)
    troubles = [*unordered(ordering), *unknown(strangers)]
    if as_json:
        told = {
            "trim_blockers": [each._asdict() for each in blockers],
            "unknown_destinations": [each.as_json() for each in strangers],
            "forgotten": forgotten,
        }
        emit(trim_facts(here.site, owner, done, segments) | ordering.as_json() | decided | told)
    else:
        console().print(
            trim_view(here.site, owner, done, segments, [*counted(decided), *troubles, *blocked_trim(blockers)])
        )
    return Exit.NO if troubles else Exit.WELL
