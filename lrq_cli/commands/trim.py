"""`lrq trim`."""

from typing import Annotated

import typer

from lrq_cli.options import Config, Database, Json, Site


def trim(
    retention_seconds: Annotated[
        float | None,
        typer.Option("--retention-seconds", metavar="N", min=0, help="Keep entries so long for those who lack them."),
    ] = None,
    retention_bytes: Annotated[
        int | None,
        typer.Option("--retention-bytes", metavar="N", min=0, help="Keep so much payload for those who lack it."),
    ] = None,
    rotate: Annotated[
        bool,
        typer.Option("--rotate", metavar="", help="Begin a new segment first, so that the current one can go too."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Only show what would go.")] = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Forget entries that everyone has, or that are beyond retention.

    A server does this by itself, with the retention of its settings: while one works for the site, this only shows
    what would go. Entries go by whole segments; who lacks something of a segment beyond retention gets a full snapshot.
    """
    from lr_server import Settings
    from lrq_cli.output import console, emit
    from lrq_cli.place import opened
    from lrq_cli.trimming import owner_of, run, trim_facts, trim_view
    from queues.log.port import Retention
    from queues.log.trimming import plan

    with opened(config, database, site) as here:
        url = here.place.url.render_as_string(hide_password=False)
        settings = Settings.load(config, database_url=url, site_id=here.site)
        retention = Retention(
            settings.retention_seconds if retention_seconds is None else retention_seconds,
            settings.retention_bytes if retention_bytes is None else retention_bytes,
        )
        owner = owner_of(here.engine)
        done = None if owner or dry_run else run(here.engine, settings, retention, rotate=rotate)
        segments = plan(here.engine, retention)
    if as_json:
        emit(trim_facts(here.site, owner, done, segments))
    else:
        console().print(trim_view(here.site, owner, done, segments))
