"""The texts that no output may hold, and the search for them in each of their forms. Pure."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Secret:
    """A text of ASCII letters and digits, with a name for the report; the text stands inside larger texts."""

    name: str
    text: str

    def forms(self) -> Iterator[tuple[str, str]]:
        """Yield each form with its name: the text, its hex, and its base64 at each of three places."""
        raw = self.text.encode()
        yield "text", self.text
        yield "hex", raw.hex()
        for before in range(3):
            # The first and the last characters depend on the neighbours of the text.
            whole = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
            yield "base64", whole[-(-before * 4 // 3) : len(whole) - 1]


def secrets_of_key(pem: str) -> list[Secret]:
    """Return the lines of a private key as secrets; only whole ones, which no certificate shares."""
    lines = [line for line in pem.splitlines() if line and not line.startswith("-----")]
    return [Secret("private key", line) for line in lines if len(line) >= 40]


def leaks(outputs: Mapping[str, str], secrets: Sequence[Secret]) -> list[str]:
    """Return a sentence for each secret in *outputs*, by the name of each output."""
    return [
        f"{output}: {secret.name} as {form}: …{searched[max(found - 200, 0) : found + 200]}…"
        for output, text in outputs.items()
        for secret in secrets
        for form, wanted in secret.forms()
        for searched in [_searched(text, form)]
        for found in [searched.find(wanted)]
        if found >= 0
    ]


def _searched(text: str, form: str) -> str:
    """Return *text* as it is searched: hex stands in any case, with spaces and with escapes."""
    # `\x70\x61` and `70 61` become `7061`.
    return text.lower().replace("\\x", "").replace(" ", "") if form == "hex" else text
