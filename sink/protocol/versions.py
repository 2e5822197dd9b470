"""Agree on a version of the protocol: the newest that both sides speak. Pure.

A source offers its oldest and newest version with each negotiation, and the sink answers with the chosen one. So sites
are upgraded one after the other, in any order. docs/compatibility.md says which versions a release speaks.
"""

from typing import Final, NamedTuple


class ProtocolVersions(NamedTuple):
    """The versions of the frames and their rules that one side speaks, both ends included."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        """Return the versions as text, "1" or "1 to 2"."""
        return str(self.oldest) if self.oldest == self.newest else f"{self.oldest} to {self.newest}"


#: The versions of this software. A new optional field needs no new version, because an older side ignores the field. A
#: new kind of refusal needs none either: an older side tries again.
SPOKEN: Final = ProtocolVersions(1, 1)


def offered(protocol: int, newest: int) -> ProtocolVersions:
    """Return the versions that a request offers; a source of version 1 names one version only."""
    return ProtocolVersions(protocol, max(protocol, newest))


def newest_common(mine: ProtocolVersions, theirs: ProtocolVersions) -> int | None:
    """Return the newest version that both sides speak; None if there is none."""
    newest = min(mine.newest, theirs.newest)
    return newest if newest >= max(mine.oldest, theirs.oldest) else None


def unspoken(answered: int, mine: ProtocolVersions) -> str | None:
    """Return a sentence if a sink has chosen a version that the source did not offer; None if all is right."""
    if mine.oldest <= answered <= mine.newest:
        return None
    return (
        f"the sink has chosen version {answered} of the protocol, this source offered {mine}: upgrade lrq at the sink"
    )


def refusal(sink: str, mine: ProtocolVersions, theirs: ProtocolVersions) -> str:
    """Return the sentence for two sides without a common version; names the side to upgrade."""
    older = f"the sink {sink}" if mine.newest < theirs.newest else "the source"
    return f"{sink} speaks the versions {mine} of the protocol, the source {theirs}: upgrade lrq at {older}"
