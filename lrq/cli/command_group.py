"""A command with subcommands, such as `lrq link`."""

import typer


def command_group(help_text: str) -> typer.Typer:
    """Return a command for subcommands, which prints its help when it stands alone."""
    app = typer.Typer(help=help_text, no_args_is_help=False)

    @app.callback(invoke_without_command=True)
    def _alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return app
