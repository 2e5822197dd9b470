"""`lrq subscribe`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrq.cli.command_group import command_group
from lrq.cli.options import Config, Database, Json, Site, Strict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queues.names import SiteId
    from queues.shard_maps import ShardMap

app = command_group("Change how the subscriptions of a client here share its entries.")

Client = Annotated[str, typer.Argument(metavar="CLIENT", help="The client whose entries are applied here.")]


@app.command("shards")
def shards(
    client: Client,
    number: Annotated[int | None, typer.Argument(metavar="N", help="The new number; without it, show them.")] = None,
    partitioner: Annotated[
        str | None,
        typer.Option(
            "--partitioner", metavar="NAME", help="hash, key, modulo, range(g,n), adaptive, or one installed."
        ),
    ] = None,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Show or set the number of shards, which apply the entries of different keys at the same time.

    Running subscriptions take the new number over by themselves; nothing is restarted, and each key keeps its order.
    """
    from lr_client.subscriber.sharding import set_shards, shards_of, waiting_sources
    from lrq.cli.known_names import check_names
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from lrq.cli.words import plural

    if number is None and partitioner is not None:
        raise typer.BadParameter("--partitioner goes with a number of shards")
    with opened(config, database, site) as here:
        check_names(here, clients=[client], strict=strict)
        changed = None if number is None else set_shards(here.engine, client, number, partitioner=partitioner)
        found = changed or shards_of(here.engine, client)
        waiting = waiting_sources(here.engine, client)
    if as_json:
        emit({"site": here.site, "client": client, "changed": changed is not None, **_facts(found, waiting)})
        return
    words = plural(1 if found is None else found.shards, "shard")
    if found is not None:
        words += f" by {found.partitioner}, version {found.version}"
    typer.echo(f"{client} has {words}{'' if number is None or changed else ' already'}")
    _tell(waiting)


@app.command("move")
def move(
    client: Client,
    slots: Annotated[list[int], typer.Argument(metavar="SLOT", help="The slots to move.")],
    to: Annotated[int, typer.Option("--to", metavar="SHARD", help="The shard that gets them.")],
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Move slots of keys to another shard, for example away from one that has too much work."""
    from lr_client.subscriber.sharding import move_slots, waiting_sources
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from lrq.cli.words import plural

    with opened(config, database, site) as here:
        found = move_slots(here.engine, client, dict.fromkeys(slots, to))
        waiting = waiting_sources(here.engine, client)
    if as_json:
        emit({"site": here.site, "client": client, "changed": True, **_facts(found, waiting)})
        return
    typer.echo(f"{plural(len(slots), 'slot')} of {client} moved to shard {to}, version {found.version}")
    _tell(waiting)


def _tell(waiting: "Sequence[SiteId]") -> None:
    """Tell that the newest version does not hold yet for the entries of some sources."""
    for source in waiting:
        typer.echo(
            f"not yet for the entries from {source}: too many earlier versions hold there, because a shard stands "
            "still; see the refusals of its shards in `lrq status`"
        )


def _facts(found: "ShardMap | None", waiting: "Sequence[SiteId]") -> dict[str, Any]:
    if found is None:
        return {"shards": 1, "partitioner": None, "version": 0, "owners": [], "waiting_sources": []}
    return {
        "shards": found.shards,
        "partitioner": found.partitioner,
        "version": found.version,
        "owners": list(found.owners),
        "waiting_sources": list(waiting),
    }
