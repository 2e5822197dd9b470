"""The text of a transcript: commands, and the reactions of the machines below each of them."""

from typing import Protocol


class Commanded(Protocol):
    """Machines that take commands; `lines` are their reactions since it was emptied."""

    lines: list[str]

    def command(self, words: str) -> None:
        """Carry out one command."""
        ...


def carried_out(text: str, transcript: Commanded) -> str:
    """Carry out the commands of a text; return the text with the reactions of the machines."""
    done: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            transcript.lines = []
            transcript.command(line.removeprefix("> "))
            done += [line, *transcript.lines]
        elif not line.startswith("  "):
            done.append(line)
    return "\n".join(done) + "\n"
