"""Show payloads to people: as hex with text beside it, as text, and by decoders of the application. Pure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lrq.cli.words import printable

#: Turns a payload into text, or returns None for a payload that it does not know.
Decoder = Callable[[bytes], "str | None"]

#: The most bytes of a payload, and the most characters of its text, on a page.
MOST_BYTES: Final = 16 * 1024
_ROW: Final = 16


@dataclass(frozen=True, slots=True)
class Reading:
    """One view of a payload, such as `text`."""

    name: str
    text: str


def readings(payload: bytes, decoders: Sequence[Decoder] = ()) -> list[Reading]:
    """Return the views of *payload*: those of *decoders*, JSON and text if it is such, then hex."""
    found = [Reading(_name(each), text) for each in decoders if (text := _decoded(each, payload)) is not None]
    shown = payload[:MOST_BYTES]
    for name, read in (("JSON", as_json), ("text", as_text)):
        text = read(payload) if len(payload) <= MOST_BYTES else read(shown) if name == "text" else None
        if text is not None:
            found.append(Reading(name, text))
    return [*found, Reading("hex", hex_dump(shown))]


def as_json(payload: bytes) -> str | None:
    """Return *payload* as indented JSON; None if it is no object or array."""
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return printable_lines(json.dumps(value, indent=2, ensure_ascii=False)) if isinstance(value, dict | list) else None


def as_text(payload: bytes) -> str | None:
    """Return *payload* as text; None if it is not UTF-8."""
    try:
        return printable_lines(payload.decode("utf-8"))
    except UnicodeDecodeError as error:
        # The payload may be cut inside a character.
        is_cut = len(payload) == MOST_BYTES and error.start > MOST_BYTES - 4
        return printable_lines(payload[: error.start].decode("utf-8")) if is_cut else None


def hex_dump(payload: bytes) -> str:
    """Return lines of 16 bytes: the offset, the bytes in hex, and the ASCII characters among them."""
    lines = []
    for offset in range(0, len(payload), _ROW):
        row = payload[offset : offset + _ROW]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        lines.append(f"{offset:06x}  {row[:8].hex(' '):23}  {row[8:].hex(' '):23}  {characters}")
    return "\n".join(lines)


def printable_lines(text: str) -> str:
    """Replace unprintable characters, among them those that turn the direction of text, and keep lines and tabs."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.replace("\r\n", "\n").split("\n"))


def _decoded(decoder: Decoder, payload: bytes) -> str | None:
    try:
        text = decoder(payload)
    except Exception as error:  # noqa: BLE001 - a decoder is code of the application
        return f"the decoder failed: {type(error).__name__}"
    return None if text is None else printable_lines(str(text)[:MOST_BYTES])


def _name(decoder: Decoder) -> str:
    return getattr(decoder, "__name__", type(decoder).__name__)
