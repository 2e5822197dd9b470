"""The distribution itself. Importing it makes sure that Python finds its packages, and not others of the same names."""

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

PACKAGES: Final = ("queues", "discovery", "sink", "lr_client", "lr_server", "lrq_cli")

_HERE: Final = Path(__file__).resolve().parent
# In the front door of each of our packages; a package that was installed over one of them does not say it.
_SIGN: Final = b"import lrq"


def _stranger(name: str) -> str | None:
    """Return what Python takes for our package *name*, or None when it is our own."""
    module = sys.modules.get(name)
    spec = find_spec(name) if module is None else module.__spec__
    if spec is None:
        return str(getattr(module, "__file__", None) or "nothing that has a file")
    places = [Path(place) for place in (spec.origin, *(spec.submodule_search_locations or ())) if place]
    if _HERE / name not in (place.resolve() for place in places):
        return str(places[0])
    door = _HERE / name / "__init__.py"
    return str(door) if door.exists() and _SIGN not in door.read_bytes() else None


def _errors(*, queues_is_ours: bool) -> ModuleType:
    if queues_is_ours:
        from queues import errors

        return errors
    spec = spec_from_file_location("queues.errors", _HERE / "queues" / "errors.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"lrq is not completely installed in {_HERE}: install it again")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check() -> None:
    strangers = {name: found for name in PACKAGES if (found := _stranger(name)) is not None}
    for name, found in strangers.items():
        errors = _errors(queues_is_ours="queues" not in strangers)
        raise getattr(errors, "PackageClashError", ImportError)(
            f"lrq needs its own package {name!r} (in {_HERE}), but Python finds {found} instead: "
            "rename that, uninstall it, or take its folder off sys.path"
        )


_check()
