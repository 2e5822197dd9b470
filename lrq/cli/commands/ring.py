"""`lrq ring`."""

from typing import TYPE_CHECKING, Annotated

import typer

from lrq.cli.command_group import command_group
from lrq.cli.options import Config, Database, Json, Site

if TYPE_CHECKING:
    from lrq.cli.ring.members import MemberView

app = command_group("Found a ring of three servers, see its members, and plan several rings.")


@app.command("init")
def init(
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="The key that the founder of rank 0 has printed.")
    ] = None,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    as_json: Json = False,
) -> None:
    """Let the empty database of this server count as a founder's store; once at each of the three servers.

    Begin at rank 0, which prints the key for the others. Never repeat this for a lost disk: `lrq serve` then copies
    the log from the other members. The table `[ring]` of lrq.toml names the members.
    """
    from lrq.cli.output import emit
    from lrq.cli.place import opened
    from lrq.cli.ring.founding import found_member

    with opened(config, database, site) as here:
        made = found_member(config, here, key)
    if as_json:
        emit({"site": here.site, "rank": made.rank, "key": made.key})
        return
    typer.echo(f"rank {made.rank} of the ring {here.site} is founded")
    if key is None:
        typer.echo(f"at both other servers run: lrq ring init --key {made.key}")


@app.command("status")
def status(config: Config = None, database: Database = None, site: Site = None, as_json: Json = False) -> None:
    """Ask the three members for their states.

    Exit code 3: the ring takes no entries now, or one of the members does not follow.
    """
    from lrq.cli.exit_codes import NoError
    from lrq.cli.output import add, console, emit, table
    from lrq.cli.place import opened, settings_of
    from lrq.cli.ring.members import ask_members, ring_trouble

    with opened(config, database, site) as here:
        found = ask_members(settings_of(config, here))
    trouble = ring_trouble(found)
    if as_json:
        emit({"site": here.site, "trouble": trouble, "members": [each.as_json() for each in found]})
    else:
        made = table(
            "Ring", "rank", "role", ("generation", "right"), ("newest", "right"), ("released", "right"),
            ("trimmed", "right"), ("at", "fold"),
        )  # fmt: skip
        for each in found:
            add(made, _row(each))
        console().print(made)
    if trouble:
        raise NoError(trouble)


@app.command("replace")
def replace(
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="The name, the rank or the endpoint of the member.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Prepare the empty disk of MEMBER, whose store is lost; run this at its machine.

    Both other members must work with their stores, because the new store copies the log from them. `lrq serve` begins
    the copy. Until the new member follows, no second disk may be lost.
    """
    from lrq.cli.output import emit
    from lrq.cli.ring.replacing import prepare_empty_store

    made = prepare_empty_store(config, member)
    if as_json:
        emit(made._asdict())
        return
    typer.echo(f"rank {made.rank} of the ring {made.site} has an empty store in {made.database}")
    typer.echo("run `lrq serve` here, which copies the log; `lrq ring status` tells when the member follows")


@app.command("plan")
def plan(config: Config = None, as_json: Json = False) -> None:
    """Print the settings of all rings that share the keys, for each machine.

    The number of rings is `rings` in the table `[ring]` of this server's lrq.toml. Each ring is a site of its own. Ring
    1 begins one machine later than ring 0, and listens one port higher. Add the other settings of this file.
    """
    from lrq.cli.output import emit
    from lrq.cli.ring.growth import RingFile

    file = RingFile.read(config)
    rings = range(file.layout.rings)
    if as_json:
        emit({"rings": len(rings), "members": [each for number in rings for each in file.as_json(number, len(rings))]})
        return
    typer.echo("\n".join(file.settings_of(number, len(rings)) for number in rings), nl=False)


@app.command("resize")
def resize(
    rings: Annotated[int, typer.Argument(metavar="RINGS", help="The new number of rings: twice the present one.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print how the rings of this lrq.toml become twice as many: the steps, and the settings of the new rings.

    Half of the keys of each ring move to a new ring, and keep the order of their entries. The command changes nothing.
    """
    from lrq.cli.output import add, console, emit, table
    from lrq.cli.ring.growth import RingFile
    from lrq.cli.ring.plan import steps

    file = RingFile.read(config)
    new = file.layout.doubled(rings)
    numbers = range(file.layout.rings, rings)
    if as_json:
        members = [each for number in numbers for each in file.as_json(number, rings)]
        moves = [{"to": each.site, "from": each.giver} for each in new]
        emit({"rings": rings, "moves": moves, "steps": steps(new, rings), "members": members})
        return
    made = table("New rings", "ring", "takes half of the keys of", "leads", "takes over", "follows")
    for number, each in zip(numbers, new, strict=True):
        add(made, [each.site, each.giver, *file.layout.members(number)[0].members])
    console().print(made)
    for place, step in enumerate(steps(new, rings), 1):
        typer.echo(f"{place}. {step}")
    typer.echo("".join(f"\n{file.settings_of(number, rings)}" for number in numbers), nl=False)


def _row(view: "MemberView") -> list[str]:
    from lrq.cli.words import number

    state = view.status
    told = () if state is None else (state.generation, state.newest, state.released, state.trimmed)
    numbers = map(number, told) if told else ("",) * 4
    return [view.shown, "unknown" if state is None else state.role, *numbers, view.endpoint]
