"""Find the object that `MODULE:NAME` names: a listener or a provider of the application."""

import difflib
import importlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from queues.errors import ConfigurationError, UsageError
from queues.words import describe


class Reference(NamedTuple):
    """A module and a name in that module; the name may have parts, such as `Rules.apply`."""

    module: str
    name: str

    def __str__(self) -> str:
        """Return `MODULE:NAME`."""
        return f"{self.module}:{self.name}"


def parse_reference(text: str) -> Reference:
    """Read `MODULE:NAME`; raise `UsageError` if *text* is not of this form."""
    module, separator, name = text.partition(":")
    parts = [*module.split("."), *name.split(".")]
    if separator and all(part.isidentifier() for part in parts):
        return Reference(module, name)
    if text.endswith(".py") or "/" in text:
        raise UsageError(f"{text!r} is a file: write the module and a name, such as app.listeners:apply")
    raise UsageError(f"{text!r} is no MODULE:NAME: write both, such as app.listeners:apply")


def find_object(reference: Reference) -> object:
    """Import the module, also from the working directory, and return the named object.

    Raises `UsageError` if there is no such module or name, and `ConfigurationError` if the module cannot be imported.
    """
    module = _imported(reference.module)
    found: object = module
    for part in reference.name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, _public(found), 1)
            cure = f"did you mean {near[0]!r}?" if near else "name an object of the module"
            raise UsageError(f"{reference} does not exist, there is no {part!r} in {_place(module)}: {cure}")
        found = getattr(found, part)
    return found


def call_factory(reference: Reference, factory: object) -> object:
    """Return the result of *factory*; raise `ConfigurationError` with its error in one sentence."""
    assert callable(factory)
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{reference}() has failed ({_told(error)}): correct the function") from error


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(f"there is no module {error.name} in {here} or on Python's path: correct {name}") from None
        raise _not_importable(name, error) from error
    except (Exception, SystemExit) as error:
        raise _not_importable(name, error) from error


def _not_importable(name: str, error: BaseException) -> ConfigurationError:
    return ConfigurationError(f"the module {name} cannot be imported ({_told(error)}): correct it, or install the rest")


def _told(error: BaseException) -> str:
    """Describe *error*, with the last line of the application's own code before it."""
    lines = list(_own_lines(error))
    return f"{lines[-1]}: {describe(error)}" if lines else describe(error)


def _own_lines(error: BaseException) -> Iterator[str]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if file != __file__ and not file.startswith("<frozen ") and "importlib" not in Path(file).parts:
            yield f"{Path(file).name}:{line}"


def _public(found: object) -> list[str]:
    return [name for name in dir(found) if not name.startswith("_")]


def _place(module: ModuleType) -> str:
    return str(module.__file__ or module.__name__)
