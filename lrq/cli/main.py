"""The command `lrq` and its subcommands."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

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
    follow,
    grant,
    init,
    link,
    park,
    peer,
    produce,
    provide,
    replay,
    replica,
    resend,
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
from lrq.cli.process.standard_streams import make_usable

_DEBUG = "--debug"
#: The commands that go on after their first output.
_GO_ON: Final = ("serve", "work", "provide", "console", "send", "snapshot", "demo")
#: All commands in panels, in the order in which a new user needs them.
_COMMANDS: Final[Mapping[str, Mapping[str, Callable[..., Any] | typer.Typer]]] = {
    "Set up a site": {
        "init": init.init,
        "doctor": doctor.doctor,
        "peer": peer.app,
        "grant": grant.grant,
        "tls": tls.app,
        "uninstall": uninstall.uninstall,
    },
    "Run": {"serve": serve.serve, "work": work.work, "provide": provide.provide, "console": console.console},
    "Watch": {"status": status.status, "top": top.top, "browse": browse.browse},
    "Send": {
        "send": send.send,
        "produce": produce.produce,
        "follow": follow.follow,
        "unfollow": follow.unfollow,
        "snapshot": snapshot.app,
        "drain": drain.drain,
    },
    "Act on queues and links": {
        "park": park.app,
        "replay": replay.app,
        "resend": resend.app,
        "link": link.app,
        "subscribe": subscribe.app,
        "trim": trim.trim,
        "fence": fence.app,
    },
    "Groups of sites, and rings": {"replica": replica.app, "ring": ring.app},
    "See lrq work": {"demo": demo.demo},
}
_ORDER: Final = [name for panel in _COMMANDS.values() for name in panel]


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


for _panel, _named in _COMMANDS.items():
    for _name, _command in _named.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            app.command(_name, rich_help_panel=_panel)(_command)


def run(arguments: Sequence[str]) -> int:
    """Run the command in *arguments* and return its exit code; an error is one line on stderr."""
    options = list(arguments)
    end = options.index("--") if "--" in options else len(options)
    debug = _DEBUG in options[:end]
    command = [word for word in options[:end] if word != _DEBUG] + options[end:]
    return exit_codes.exit_code(
        lambda: _built().main(args=command, prog_name="lrq", standalone_mode=False),
        debug=debug,
        prints_last=not command or command[0] not in _GO_ON,
    )


def _built() -> Any:  # noqa: ANN401 - Typer does not export its classes
    """Return all commands; the help shows no type of `--help`, as for every flag."""
    built = typer.main.get_command(app)
    for each in _all_of(built):
        if (option := each.get_help_option(each.context_class(each))) is not None:
            option.metavar = ""
    return built


def _all_of(command: Any) -> Iterator[Any]:  # noqa: ANN401
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _all_of(each)


def main() -> None:
    """Run `lrq` with the arguments of this process, and exit."""
    make_usable()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
