"""The reference of all commands, from the Typer application."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from typer.main import get_command

from lrq.cli.main import app
from tools.reference.tables import table

#: Options of almost every command, explained once.
COMMON: Final = ("config", "database", "site", "strict", "as_json", "log_level", "log_format")


def commands() -> str:
    """Return a section for each command and each of its subcommands, in the order of `lrq --help`."""
    root: Any = get_command(app)
    shared = {each.name: each for command in _walk(root, "lrq") for each in command[1].params if each.name in COMMON}
    text = f"{root.epilog}\n\n## Common options\n\n{_options([shared[name] for name in COMMON if name in shared])}\n"
    return text + "\n".join(_section(name, command) for name, command in _walk(root, "lrq") if name != "lrq")


def names() -> list[str]:
    """Return every command that does something by itself, such as `lrq park list`."""
    return [name for name, command in _walk(get_command(app), "lrq") if not hasattr(command, "commands")]


def _walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Typer does not export its classes
    yield name, command
    if hasattr(command, "commands"):
        order = command.list_commands(None)
        for each in order:
            yield from _walk(command.commands[each], f"{name} {each}")


def _section(name: str, command: Any) -> str:  # noqa: ANN401
    level = "##" if name.count(" ") == 1 else "###"
    own = [each for each in command.params if each.name not in COMMON and not each.hidden]
    words = [_usage(each) for each in own if _is_argument(each)]
    if not words and hasattr(command, "commands"):
        words = ["COMMAND"]
    usage = " ".join([name, *(["[OPTIONS]"] if command.params else []), *words])
    shared = [f"`{each.opts[0]}`" for each in command.params if each.name in COMMON]
    also = f"Also {', '.join(shared)}: see [Common options](#common-options).\n" if shared else ""
    table_of_options = f"{_options(own)}\n" if own else ""
    return f"{level} `{name}`\n\n{command.help or ''}\n\n```text\n{usage}\n```\n\n{table_of_options}{also}"


def _is_argument(parameter: Any) -> bool:  # noqa: ANN401
    return bool(parameter.param_type_name == "argument")


def _usage(argument: Any) -> str:  # noqa: ANN401
    word = argument.metavar or argument.name.upper()
    many = "..." if argument.nargs == -1 else ""
    return f"{word}{many}" if argument.required else f"[{word}]{many}"


def _options(parameters: list[Any]) -> str:
    rows = [(_written(each), each.help or "", _default(each)) for each in parameters]
    return table(("option", "meaning", "default"), rows)


def _written(parameter: Any) -> str:  # noqa: ANN401
    if _is_argument(parameter):
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {parameter.metavar or _choices(parameter)}"


def _choices(parameter: Any) -> str:  # noqa: ANN401
    """Return the values that *parameter* takes if they are few, otherwise its name in capitals."""
    kind = type(parameter.default)
    return " | ".join(f"`{each.value}`" for each in kind) if issubclass(kind, Enum) else str(parameter.name).upper()


def _default(parameter: Any) -> str:  # noqa: ANN401
    value = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    if parameter.required:
        return "required"
    return "" if value in (None, False, (), []) or callable(value) else f"`{value}`"
