"""`lrq tls`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrq.cli.command_group import command_group
from lrq.cli.options import Json

if TYPE_CHECKING:
    from lrq.cli.authority import Issued

app = command_group("Make an authority of your own, and certificates for sites, producers and consoles.")

Folder = Annotated[Path, typer.Option("--folder", metavar="DIR", help="The folder of the authority.")]


@app.command("init")
def init(
    folder: Folder = Path("tls"),
    name: Annotated[str, typer.Option("--name", help="The name in the authority's certificate.")] = "lrq authority",
    days: Annotated[int, typer.Option("--days", min=1, max=36_500, help="The days of its validity.")] = 3_650,
    as_json: Json = False,
) -> None:
    """Make an authority: `authority.pem` for every site, and `authority.key`, which stays in this folder.

    A holder of `authority.key` can speak for every site, so keep it away from the servers. Nothing is overwritten.
    """
    _require()
    from lrq.cli.authority import create_authority

    _tell(create_authority(folder, name, days), name, as_json=as_json)


@app.command("issue")
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A site id, or the name of a producer or console.")],
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="HOST", help="Host names and addresses at which peers reach a site."),
    ] = None,
    folder: Folder = Path("tls"),
    days: Annotated[int, typer.Option("--days", min=1, max=36_500, help="The days of its validity.")] = 365,
    renew: Annotated[
        bool, typer.Option("--renew", metavar="", help="Replace the files of NAME; without HOST, for the same hosts.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Issue `NAME.pem` and `NAME.key`, whose common name is NAME.

    A site that only sends needs no HOST, and neither does a producer. Both files have mode 0600. Servers read renewed
    files for each new connection, without a restart.
    """
    _require()
    from lrq.cli.authority import issue as issued
    from queues import names

    _tell(issued(folder, names.site_id(name), hosts or [], days, renew=renew), name, as_json=as_json)


def _require() -> None:
    from queues.extras import require_libraries

    require_libraries("tls", "`lrq tls`", ("cryptography",))


def _tell(made: "Issued", name: str, *, as_json: bool) -> None:
    from lrq.cli.output import emit

    if as_json:
        emit({
            "name": name, "certificate": str(made.certificate), "key": str(made.key), "hosts": made.hosts,
            "valid_until": f"{made.end:%Y-%m-%dT%H:%M:%SZ}",
        })  # fmt: skip
        return
    hosts = f" at {', '.join(made.hosts)}" if made.hosts else ""
    typer.echo(f"{made.certificate} names {name}{hosts}, and is valid until {made.end:%Y-%m-%d %H:%M} UTC")
    typer.echo(f"{made.key} is its key")
