"""The packages of this distribution: importing this module checks that Python finds them and no others."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

PACKAGES: Final = ("queues", "discovery", "sink", "lr_client", "lr_server", "lrq")

_HERE: Final = Path(__file__).resolve().parent
# Each of our packages has this line in its `__init__`; a package installed over one of them has not.
_SIGN: Final = b"import lrq_packages"
_AGAIN: Final = "install lrq again, with pip's option --force-reinstall"


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of *package* (PEP 562), which loads each name of *homes* from its module at first use.

    So an application loads the libraries of the names that it uses, and no others.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return load


def _stranger(name: str) -> str | None:
    """Return the file that Python finds as package *name*, or None when the package is ours."""
    module = sys.modules.get(name)
    spec = find_spec(name) if module is None else module.__spec__
    if spec is None:
        return str(getattr(module, "__file__", None) or "nothing that has a file")
    places = [Path(place) for place in (spec.origin, *(spec.submodule_search_locations or ())) if place]
    if _HERE / name not in (place.resolve() for place in places):
        return str(places[0])
    door = _HERE / name / "__init__.py"
    if not _HERE.is_dir():  # an archive, as Spark ships one to its workers: no file of it can be overwritten
        return None
    if not door.exists():
        raise ImportError(f"lrq is not completely installed, {door} is missing: {_AGAIN}")
    return None if _SIGN in door.read_bytes() else str(door)


def _errors(*, queues_is_ours: bool) -> ModuleType:
    if queues_is_ours:
        from queues import errors

        return errors
    spec = spec_from_file_location("queues.errors", _HERE / "queues" / "errors.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"lrq is not completely installed in {_HERE}: {_AGAIN}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check() -> None:
    strangers = {name: found for name in PACKAGES if (found := _stranger(name)) is not None}
    for name, found in strangers.items():
        errors = _errors(queues_is_ours="queues" not in strangers)
        if _HERE / name in Path(found).parents:
            cure = f"uninstall the distribution that brought that file, then {_AGAIN}"
        else:
            cure = "rename that, uninstall it, or take its folder off sys.path"
        raise getattr(errors, "PackageClashError", ImportError)(
            f"lrq needs its own package {name!r} (in {_HERE}), but Python finds {found} instead: {cure}"
        )


_check()
