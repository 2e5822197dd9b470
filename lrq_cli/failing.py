"""How a command ends when something is wrong: one line on stderr and an exit code."""

import os
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import Final, cast

import typer

from lrq_cli.words import one_line


class Exit(IntEnum):
    """Exit codes of every command."""

    WELL = 0
    #: It could not be done.
    FAILED = 1
    #: It was asked for wrongly.
    USAGE = 2
    #: The answer is no: something is stalled or failed, does not fit, or did not happen in time.
    NO = 3
    #: Ctrl-C.
    INTERRUPTED = 130


class NoError(Exception):
    """The command was carried out, and the answer is no; the sentence says what is not well."""


#: What Typer raises for a command line that it cannot read; it does not export the class itself.
_BAD_COMMAND_LINE: Final = cast(type[Exception], typer.BadParameter.__mro__[2])


def exit_code(command: Callable[[], object], *, debug: bool) -> int:
    """Carry out *command* and return the exit code; what it raises is told in one line, with *debug* as a traceback."""
    try:
        result = command()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python must not try to flush the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.WELL
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the end of the program: told, and turned into its exit code
        if debug:
            traceback.print_exception(error)
        code, words = judged(error)
        if words:
            typer.echo(f"lrq: {words}", err=True)
        return code
    return result if isinstance(result, int) else Exit.WELL


def judged(error: Exception) -> tuple[int, str]:
    """Return the exit code for *error* and the line that says what is wrong."""
    if isinstance(error, _BAD_COMMAND_LINE):
        return Exit.USAGE, _bad_command_line(error)
    if isinstance(error, typer.Abort):
        return Exit.FAILED, "given up"
    if isinstance(error, NoError):
        return Exit.NO, one_line(str(error))
    return _judged_late(error)


def _bad_command_line(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    format_message = getattr(error, "format_message", None)
    words = one_line(format_message() if format_message is not None else str(error))
    words = words[:1].lower() + words[1:]
    if context is None:
        return words
    return f"{words}{'' if words.endswith(('.', '?')) else '.'} See `{context.command_path} --help`"


def _judged_late(error: Exception) -> tuple[int, str]:
    # Not above: `lrq --help` needs neither.
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    from queues.errors import LrqError, UsageError, WaitTimeoutError
    from queues.transactions import map_error

    if isinstance(error, DBAPIError):
        # Its own words repeat the statement and its parameters, which may be payloads.
        mapped = map_error(error)
        return Exit.FAILED, one_line(str(mapped)) if mapped else f"the database refused: {one_line(str(error.orig))}"
    if isinstance(error, WaitTimeoutError):
        return Exit.NO, one_line(str(error))
    if isinstance(error, UsageError):
        return Exit.USAGE, one_line(str(error))
    if isinstance(error, LrqError):
        return Exit.FAILED, one_line(str(error))
    if isinstance(error, SQLAlchemyError):
        return Exit.FAILED, f"the database cannot be used: {one_line(str(error))}"
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return Exit.FAILED, f"{place}{error.strerror}"
    return Exit.FAILED, f"unexpected {type(error).__name__}: {one_line(str(error))} (--debug shows where)"
