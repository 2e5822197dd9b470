"""`lrq peer`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from lrq.cli.command_group import command_group
from lrq.cli.exit_codes import NoError
from lrq.cli.options import Config, Database, Json, Site

app = command_group("List, add or remove the peers of a site, or give them other endpoints, while its servers run.")

Peer = Annotated[str, typer.Argument(metavar="SITE", help="The other site.")]


@app.command("list")
def list_(config: Config = None, database: Database = None, site: Site = None, as_json: Json = False) -> None:
    """List the peers in the place that the setting `topology` names, and the servers that follow others."""
    from lrq.cli.output import add, console, emit, table
    from lrq.cli.peers import followed, read_peers, unlisted
    from lrq.cli.place import settings_of
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.words import NONE, number, one_line, plural
    from queues.database.servers import look

    with _told_without_right(), opened_to_read(config, database, site) as here:
        settings = settings_of(config, here)
        listed = read_peers(settings, lambda: here.engine)
        living = look(here.engine).living
        words = unlisted(settings.topology, listed, here.engine)
    if words is not None:
        typer.echo(f"lrq: warning: {words}", err=True)
    if as_json:
        told = [{"name": name, **row.topology._asdict()} for name, row in living.items()]
        emit({"site": here.site, **listed.as_json(), "servers": told})
        return
    if listed.peers:
        made = table("Peers", "site", ("endpoint", "fold"), ("for snapshots", "fold"))
        for name, peer in sorted(listed.peers.items()):
            add(made, [name, one_line(peer.endpoint), one_line(peer.snapshot_endpoint) or NONE])
        console().print(made)
    version = "" if listed.version is None else f", version {number(listed.version)}"
    typer.echo(f"{here.site} has {plural(len(listed.peers), 'peer')} in {listed.source}{version}")
    for sentence in followed(living, listed):
        typer.echo(f"  {sentence}")


@app.command("add")
def add_(
    peer: Peer,
    endpoint: Annotated[
        str, typer.Argument(metavar="ENDPOINT", help="Where that site listens; several stand between commas.")
    ],
    snapshots: Annotated[
        str, typer.Option("--snapshots", metavar="ENDPOINT", help="Another endpoint of that site, for snapshots.")
    ] = "",
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Add SITE to the table of peers, or give it another ENDPOINT; running servers follow within a second.

    The servers need `topology = "table"`. Sessions with a moved site connect again, and lose nothing.
    A warning tells that links to SITE have ended; `lrq link begin` lets them begin again.
    """
    from lr_server.topology.table import add_peer
    from lrq.cli.links import closed_warning
    from lrq.cli.place import opened, settings_of
    from queues import look_alikes, names
    from queues.database.peers import PeerRow

    row = PeerRow(names.site_id(peer), endpoint, snapshots)
    with opened(config, database, site) as here:
        settings = settings_of(config, here)
        change = add_peer(here.engine, row, settings.own)
        for pair in look_alikes.look_alikes([here.site, row.site]):
            typer.echo(f"lrq: warning: {look_alikes.warning(pair)}", err=True)
        if (words := closed_warning(here.engine, row.site)) is not None:
            typer.echo(f"lrq: warning: {words}", err=True)
    warn_unused(settings.topology)
    done = "is added" if change.before is None else "has another endpoint now" if change.is_change else "is as it was"
    _tell(here.site, row.site, f"{row.site} {done}", change.version, is_change=change.is_change, as_json=as_json)


@app.command("remove")
def remove(
    peer: Peer, config: Config = None, database: Database = None, site: Site = None, as_json: Json = False
) -> None:
    """Remove SITE from the table of peers; its sessions end, and its entries are kept for a while.

    The servers need `topology = "table"`. Without a session, entries for SITE wait for `unknown_retention_seconds`.
    A warning tells that a link to SITE has not finished yet.
    """
    from lr_server.topology.table import drop_peer
    from lrq.cli.links import draining_warning
    from lrq.cli.place import opened, settings_of
    from queues import names

    name = names.site_id(peer)
    with opened(config, database, site) as here:
        settings = settings_of(config, here)
        change = drop_peer(here.engine, name)
        words = draining_warning(here.engine, name)
    if not change.is_change:
        raise NoError(f"{name} is no peer in the table: `lrq peer list` shows the peers")
    warn_unused(settings.topology)
    if words is not None:
        typer.echo(f"lrq: warning: {words}", err=True)
    _tell(here.site, name, f"{name} is removed", change.version, is_change=True, as_json=as_json)


def warn_unused(topology: str) -> None:
    """Warn if servers with this setting do not use the table."""
    from lr_server.topology.loading import TABLE

    if topology != TABLE:
        words = f'the servers use the table with topology = "{TABLE}" only, and the settings here say "{topology}"'
        typer.echo(f"lrq: warning: {words}", err=True)


@contextmanager
def _told_without_right() -> Iterator[None]:
    """Turn the refusal of PostgreSQL into the sentence that helps: no grant to a sender or subscriber would."""
    from queues.database.transactions import is_right_lacking
    from queues.errors import ConfigurationError

    try:
        yield
    except ConfigurationError as error:
        if not is_right_lacking(error):
            raise
        words = "only the role of a server and the tables' owner see the peers: run `lrq peer list` as one of them"
        raise ConfigurationError(words) from error


def _tell(site: str, peer: str, done: str, version: int, *, is_change: bool, as_json: bool) -> None:
    from lrq.cli.output import emit
    from lrq.cli.words import number

    if as_json:
        emit({"site": site, "peer": peer, "version": version, "changed": is_change})
    else:
        typer.echo(f"{done}; version {number(version)} of the peers")
