"""The command `lrq` and its subcommands."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lrq.cli import exit_codes
from lrq.cli.commands import (
    browse,
    console,
    demo,
    doctor,
    drain,
    fence,
    grant,
    init,
    link,
    park,
    peer,
    produce,
    provide,
    replay,
    replica,
    ring,
    send,
    serve,
    snapshot,
    status,
    subscribe,
    tls,
    top,
    trim,
    uninstall,
    work,
)

_DEBUG = "--debug"
_ORDER = (
    "init",
    "doctor",
    "serve",
    "work",
    "provide",
    "status",
    "top",
    "console",
    "browse",
    "send",
    "produce",
    "snapshot",
    "drain",
    "trim",
    "peer",
    "replica",
    "link",
    "subscribe",
    "park",
    "replay",
    "fence",
    "ring",
    "grant",
    "tls",
    "uninstall",
    "demo",
)


class _InOrder(TyperGroup):
    """Lists the commands in the order in which a new user needs them."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - Typer does not export its class
        return sorted(super().list_commands(ctx), key=_ORDER.index)


app = typer.Typer(
    name="lrq",
    cls=_InOrder,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Log replication over routing queues: manage the sites that replicate to each other.",
    epilog=(
        "A command finds the site's database in this order: `--database`, `LRQ_DATABASE_URL`, then `database_url` "
        "in the file of `--config` (default: `lrq.toml` in the working directory).\n\n"
        "**Exit codes**: 0 success; 1 the command failed; 2 the command line is wrong; 3 the answer is no: "
        "something is stalled or failed, does not fit, or did not happen in time."
    ),
)


@app.callback(invoke_without_command=True)
def _lrq(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", metavar="", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option(_DEBUG, metavar="", help="Show the traceback of an error; goes with any command.")
    ] = False,
) -> None:
    del debug  # `run` removes --debug, wherever the option stands
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"lrq {installed('lrq')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("init")(init.init)
app.command("doctor")(doctor.doctor)
app.command("serve")(serve.serve)
app.command("work")(work.work)
app.command("provide")(provide.provide)
app.command("status")(status.status)
app.command("top")(top.top)
app.command("console")(console.console)
app.command("browse")(browse.browse)
app.command("send")(send.send)
app.command("produce")(produce.produce)
app.add_typer(snapshot.app, name="snapshot")
app.command("drain")(drain.drain)
app.command("trim")(trim.trim)
app.add_typer(peer.app, name="peer")
app.add_typer(replica.app, name="replica")
app.add_typer(link.app, name="link")
app.add_typer(subscribe.app, name="subscribe")
app.add_typer(park.app, name="park")
app.add_typer(replay.app, name="replay")
app.add_typer(fence.app, name="fence")
app.add_typer(ring.app, name="ring")
app.command("grant")(grant.grant)
app.add_typer(tls.app, name="tls")
app.command("uninstall")(uninstall.uninstall)
app.command("demo")(demo.demo)


def run(arguments: Sequence[str]) -> int:
    """Run the command in *arguments* and return its exit code; an error is one line on stderr."""
    options = list(arguments)
    end = options.index("--") if "--" in options else len(options)
    debug = _DEBUG in options[:end]
    command = [word for word in options[:end] if word != _DEBUG] + options[end:]
    return exit_codes.exit_code(
        lambda: typer.main.get_command(app).main(args=command, prog_name="lrq", standalone_mode=False), debug=debug
    )


def main() -> None:
    """Run `lrq` with the arguments of this process, and exit."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
