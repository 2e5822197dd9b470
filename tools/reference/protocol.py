"""The reference of the wire protocol: the commented files in `proto`."""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[2] / "proto"
#: The services first, then the messages that both use.
FILES: Final = ("replication.proto", "attachment.proto", "ingest.proto", "ring.proto", "entry.proto")


def protocol() -> str:
    """Return each file with its comments; raise `LookupError` for a file that this module does not know."""
    if unknown := {path.name for path in FOLDER.glob("*.proto")} ^ set(FILES):
        raise LookupError(f"tools/reference/protocol.py and proto/ differ: {', '.join(sorted(unknown))}")
    return "\n".join(f"## {name}\n\n```proto\n{(FOLDER / name).read_text()}```\n" for name in FILES)
