"""`lrq replica`."""

from typing import Annotated

import typer

from lrq.cli.command_group import command_group
from lrq.cli.exit_codes import NoError
from lrq.cli.options import Config, Database, Json, Site

app = command_group("List replicas, and let another member of a group serve.")

Group = Annotated[str, typer.Argument(metavar="NAME", help="The name of the group.")]


@app.command("list")
def list_(config: Config = None, database: Database = None, site: Site = None, as_json: Json = False) -> None:
    """Show each group with its members and the one that serves.

    At a member: the word of each source about the group, and its age.
    """
    from lrq.cli.output import console, emit
    from lrq.cli.reader_place import opened_to_read
    from lrq.cli.replica_actions import list_replicas
    from lrq.cli.views.replicas import replicas_view

    with opened_to_read(config, database, site) as here:
        found = list_replicas(here.engine)
    if as_json:
        emit({"site": here.site} | found.as_json())
    else:
        console().print(replicas_view(found))


@app.command("promote")
def promote(
    member: Annotated[str, typer.Argument(metavar="SITE", help="The member that shall serve.")],
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long SITE may take to catch up.")
    ] = 30.0,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Also a SITE that lacks entries; see docs/replicas.md.")
    ] = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Let SITE serve for its group from now on; run this at the source.

    No data moves. SITE must have applied everything that the active member had applied as this command began.
    """
    from lrq.cli import replica_actions
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from queues.names import site_id

    name = site_id(member)
    with opened(config, database, site) as here:
        done = replica_actions.promote(here.engine, name, timeout=timeout, force=force)
    now = done.now
    if as_json:
        facts = {"name": now.name, "active": now.member, "generation": now.generation, "before": done.before}
        emit({"site": here.site, **facts, "changed": done.is_change})
    elif done.is_change:
        typer.echo(f"{now.member} serves for {now.name} now, generation {now.generation}; before: {done.before}")
    else:
        typer.echo(f"{now.member} serves for {now.name} already, since generation {now.generation}")


@app.command("add")
def add(
    name: Group,
    members: Annotated[list[str], typer.Argument(metavar="SITE", help="The peers that get the same entries.")],
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Make NAME a group of these peers in the table, or give it other members; running servers follow.

    The servers need `topology = "table"`. A new member gets everything that the others have.
    """
    from lr_server.topology.table import put_group
    from lrq.cli.commands.peer import warn_unused
    from lrq.cli.place import opened, settings_of
    from lrq.cli.words import number
    from queues import names

    group, listed = names.site_id(name), [names.site_id(each) for each in members]
    with opened(config, database, site) as here:
        topology = settings_of(config, here).topology
        change = put_group(here.engine, group, listed)
    warn_unused(topology)
    done = f"{group} is {', '.join(listed)} now" if change.is_change else f"{group} is as it was"
    _tell(here.site, group, f"{done}; version {number(change.version)} of the peers", change.version, as_json=as_json)


@app.command("remove")
def remove(
    name: Group, config: Config = None, database: Database = None, site: Site = None, as_json: Json = False
) -> None:
    """Remove the group NAME from the table; its members stay peers.

    Entries for NAME then wait for `unknown_retention_seconds`, as for a site that is no peer.
    """
    from lr_server.topology.table import drop_group
    from lrq.cli.commands.peer import warn_unused
    from lrq.cli.place import opened, settings_of
    from lrq.cli.words import number
    from queues import names

    group = names.site_id(name)
    with opened(config, database, site) as here:
        topology = settings_of(config, here).topology
        change = drop_group(here.engine, group)
    if not change.is_change:
        raise NoError(f"there are no replicas {group!r} in the table: `lrq replica list` shows them")
    warn_unused(topology)
    words = f"{group} is removed; version {number(change.version)} of the peers"
    _tell(here.site, group, words, change.version, as_json=as_json)


def _tell(site: str, name: str, words: str, version: int, *, as_json: bool) -> None:
    from lrq.cli.output import emit

    if as_json:
        emit({"site": site, "name": name, "version": version})
    else:
        typer.echo(words)
