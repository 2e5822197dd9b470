"""Write the machine's state diagram of a session into docs/sessions.md: `make diagram`."""

import re
from pathlib import Path

from lr_server.protocol.diagram import diagram

PAGE = Path(__file__).resolve().parent.parent / "docs" / "sessions.md"
_PLACE = re.compile(r"(?<=<!-- diagram: begin -->\n).*(?=<!-- diagram: end -->)", re.DOTALL)


def with_diagram(page: str) -> str:
    """Return *page* with the machine's present diagram between the markers."""
    return _PLACE.sub(lambda _: f"```mermaid\n{diagram()}```\n", page)


if __name__ == "__main__":
    PAGE.write_text(with_diagram(PAGE.read_text()))
