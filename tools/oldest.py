"""Print the oldest supported version of each library, as constraints for pip: the lower bounds of pyproject.toml."""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())["project"]
#: The extras of which both ends of each range are tested.
EXTRAS = ("producer", "server", "cli", "console", "postgres", "spark", "tls")


def oldest(requirements: list[str]) -> list[str]:
    """Return `name==version` for each requirement with a lower bound."""
    found = (re.match(r"([\w-]+)(?:\[([\w,]+)\])?>=([\w.]+)", each) for each in requirements)
    bounds = [(match[1], match[2], match[3]) for match in found if match]
    return [
        f"{each}=={version}"
        for name, extra, version in bounds
        for each in ([name, f"{name}-{extra}"] if extra == "binary" else [name])
    ]


def main() -> None:
    """Print one constraint for each library, sorted."""
    extras = PROJECT["optional-dependencies"]
    print(*sorted({*oldest([*PROJECT["dependencies"], *(each for name in EXTRAS for each in extras[name])])}), sep="\n")


if __name__ == "__main__":
    main()
