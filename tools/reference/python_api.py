"""The reference of the names that applications import, for Sphinx's autodoc."""

import inspect
from importlib import import_module
from typing import Any, Final

from google.protobuf.message import Message

import lrq
from tools.reference.tables import table

#: Packages with public names; an application imports most of them from `lrq`.
PACKAGES: Final = ("lr_client", "lr_client.producer", "lr_client.spark", "lr_server", "queues", "lrq.testing")
#: Classes that have a page of their own.
ELSEWHERE: Final = {"Settings": "[Settings](settings.md)"}


def python_api() -> str:
    """Return the names of `lrq`, then a section for each package with all its public names."""
    rows = [(f"`lrq.{name}`", _home(getattr(lrq, name))) for name in lrq.__all__ if name != "__version__"]
    text = f"## lrq\n\n{inspect.getdoc(lrq)}\n\n".partition("Example:")[0] + table(("name", "defined in"), rows)
    shown: dict[object, str] = {}
    return "\n".join([text, *(_package(name, shown) for name in PACKAGES)])


def public_names(package: str) -> list[str]:
    """Return the names in `__all__`."""
    return list(getattr(import_module(package), "__all__", ()))


def _home(found: object) -> str:
    return "`queues.errors`" if inspect.ismodule(found) else f"`{getattr(found, '__module__', '')}`"


def _package(package: str, shown: dict[object, str]) -> str:
    words = (inspect.getdoc(import_module(package)) or "").partition("\n")[0]
    return f"## {package}\n\n{words}\n\n" + "\n".join(_name(package, name, shown) for name in public_names(package))


def _name(package: str, name: str, shown: dict[object, str]) -> str:
    found: Any = getattr(import_module(package), name)
    if name in ELSEWHERE:
        return f"`{package}.{name}`: see {ELSEWHERE[name]}.\n"
    if inspect.isclass(found) and issubclass(found, Message):
        return f"`{package}.{name}`: see [the wire protocol](wire-protocol.md).\n"
    if inspect.isclass(found) or callable(found):
        first = shown.setdefault(found, f"{package}.{name}")
        if first != f"{package}.{name}":
            return f"`{package}.{name}` is `{first}`.\n"
    if inspect.isclass(found):
        return f"```{{eval-rst}}\n.. autoclass:: {package}.{name}\n   :members:\n```\n"
    if callable(found):
        return f"```{{eval-rst}}\n.. autofunction:: {package}.{name}\n```\n"
    return f"`{package}.{name}`\n"
