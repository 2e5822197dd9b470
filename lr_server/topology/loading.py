"""Find the provider that the setting `topology` names."""

import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from discovery.object_reference import Reference, find_object, parse_reference
from lr_server.topology.providers import TopologyProvider
from queues.errors import ConfigurationError, LrqError
from queues.words import describe

#: The values of the setting that name lrq's own places.
FILE: Final = "file"
TABLE: Final = "table"
#: The group of entry points of third parties.
GROUP: Final = "lrq.topology"
_CHOICES: Final = f'write "{FILE}", "{TABLE}", module:name, or the name of an entry point in the group {GROUP}'


def check_name(topology: str) -> None:
    """Check the form of the setting; raise `ConfigurationError`. No module is imported."""
    if topology in (FILE, TABLE):
        return
    if ":" in topology:
        try:
            parse_reference(topology)
        except LrqError as error:
            raise ConfigurationError(str(error)) from None
    elif not topology or topology != topology.strip():
        raise ConfigurationError(f"{topology!r} is no topology: {_CHOICES}")


def third_party(topology: str) -> TopologyProvider:
    """Return the provider that `MODULE:NAME` or an entry point names; raise `ConfigurationError` if there is none."""
    found = _referenced(parse_reference(topology)) if ":" in topology else _entry_point(topology)
    if isinstance(found, type) or not callable(getattr(found, "read", None)):
        found = _made(topology, found)
    if not callable(getattr(found, "read", None)):
        raise ConfigurationError(
            f"topology {topology!r} is no provider, since it has no method `read`: see docs/peers.md"
        )
    return cast("TopologyProvider", found)


def _referenced(reference: Reference) -> object:
    try:
        return find_object(reference)
    except LrqError as error:
        raise ConfigurationError(f"topology: {error}") from error


def _entry_point(name: str) -> object:
    found = [*entry_points(group=GROUP, name=name)]
    if not found:
        names = sorted({FILE, TABLE, *(each.name for each in entry_points(group=GROUP))})
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else _CHOICES
        raise ConfigurationError(f"there is no topology {name!r}: {hint}")
    if len({each.value for each in found}) > 1:
        homes = ", ".join(sorted(_home(each) for each in found))
        raise ConfigurationError(f"topology {name!r} is in several packages ({homes}): write module:name instead")
    try:
        return found[0].load()
    except Exception as error:
        raise ConfigurationError(
            f"topology {name!r} of {_home(found[0])} cannot be loaded ({describe(error)}): correct that package"
        ) from error


def _home(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _made(topology: str, factory: object) -> object:
    if not callable(factory):
        return factory
    try:
        return factory()
    except Exception as error:
        raise ConfigurationError(f"topology {topology!r} cannot be made ({describe(error)}): correct it") from error
