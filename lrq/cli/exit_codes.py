"""Turn the error of a command into one line on stderr and an exit code."""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Protocol, runtime_checkable

import typer

from lrq.cli.process.standard_streams import leave_stdout, lost_output
from lrq.cli.words import one_line


class Exit(IntEnum):
    """Exit codes of every command."""

    WELL = 0
    #: The command could not be carried out.
    FAILED = 1
    #: The command line is wrong.
    USAGE = 2
    #: The answer is no: something is stalled or failed, does not fit, or did not happen in time.
    NO = 3
    #: Ctrl-C.
    INTERRUPTED = 130


class NoError(Exception):
    """The command ran and its answer is no; the message gives the reason."""


@runtime_checkable
class _BadCommandLine(Protocol):
    """An error in the command line; Typer has no public base class, but all its usage errors have this method."""

    def format_message(self) -> str:
        """Return the sentence for the user."""
        ...


@contextmanager
def telling(done: str) -> Iterator[None]:
    """Print in the block; raise `NoError` with the words *done* if stdout is full or closed."""
    try:
        yield
    except OSError as error:
        leave_stdout()
        raise NoError(f"{done}; stdout could not be written ({error.strerror})") from None


@contextmanager
def may_run_again(*, once: bool) -> Iterator[None]:
    """With *once*, add to the error of a database that cannot be used: a new run loses nothing."""
    from queues.errors import StoreUnavailableError

    try:
        yield
    except StoreUnavailableError as error:
        if not once:
            raise
        raise StoreUnavailableError(f"{error}; nothing is lost: run the command again") from error


def exit_code(command: Callable[[], object], *, debug: bool, prints_last: bool = True) -> int:
    """Run *command* and return its exit code; print an error as one line on stderr, with *debug* also a traceback.

    A command that *prints_last* has done its work before it finds that the reader of stdout is gone.
    """
    try:
        result = command()
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        # Typer turns a broken pipe into an exit.
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        leave_stdout()
        if prints_last:
            return Exit.WELL
        typer.echo("lrq: stdout was closed before the command had ended", err=True)
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last handler: every error becomes an exit code
        if debug:
            traceback.print_exception(error)
        code, words = judged(error)
        lost = lost_output()
        if lost and isinstance(error, OSError):
            words = f"stdout could not be written ({lost})"
        if words:
            typer.echo(f"lrq: {words}", err=True)
        return code
    return result if isinstance(result, int) else Exit.WELL


def judged(error: Exception) -> tuple[int, str]:
    """Return the exit code for *error* and the line for stderr."""
    if isinstance(error, _BadCommandLine):
        return Exit.USAGE, _bad_command_line(error)
    if isinstance(error, typer.Abort):
        return Exit.FAILED, "aborted: the answer was not yes, and --yes gives that answer"
    if isinstance(error, NoError):
        return Exit.NO, one_line(str(error))
    return _judged_late(error)


def _bad_command_line(error: _BadCommandLine) -> str:
    context = getattr(error, "ctx", None)
    # Typer gives the sentences of Pydantic, whose class of error means nothing to a user.
    words = one_line(error.format_message()).replace(": Value error, ", ": ")
    words = words[:1].lower() + words[1:]
    if context is None:
        return words
    return f"{words}{'' if words.endswith(('.', '?')) else '.'} See `{context.command_path} --help`"


def _judged_late(error: Exception) -> tuple[int, str]:
    # Imported here: `lrq --help` needs neither SQLAlchemy nor `queues`.
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    from queues.database.encodings import lacking
    from queues.database.transactions import map_error
    from queues.errors import LrqError, UsageError, WaitTimeoutError
    from queues.thread_lack import NO_THREAD, is_lack

    if isinstance(error, DBAPIError):
        # SQLAlchemy's message repeats the parameters of the statement, which may be payloads.
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
    if isinstance(error, UnicodeEncodeError) and (known := lacking(error)) is not None:
        return Exit.FAILED, one_line(str(known))
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return Exit.FAILED, f"{place}{error.strerror}"
    if is_lack(error):
        return Exit.FAILED, NO_THREAD
    return Exit.FAILED, f"unexpected {type(error).__name__}: {one_line(str(error))} (--debug shows where)"
