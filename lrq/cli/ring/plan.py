"""The settings of several rings on three machines, and the growth to twice the rings. Pure.

The machines are those of ring 0, in the order of its ranks. Each further ring begins one machine later, and listens one
port higher. So every machine leads one ring of three, and follows two.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from discovery.rings import check_rings, ring_name, share_of, site_of
from lr_server.protocol.agreement.generations import RANKS
from lr_server.ring_setting import RingSetting
from queues.errors import ConfigurationError
from sink.transport.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint, network_endpoint


class PlannedMember(NamedTuple):
    """The member of one ring at one machine; `members` are the endpoints of all three by rank."""

    site: str
    rank: int
    members: tuple[str, ...]

    @property
    def endpoint(self) -> str:
        """The endpoint of this member."""
        return self.members[self.rank]


class NewRing(NamedTuple):
    """A ring that takes the upper half of the keys of the ring `giver`."""

    site: str
    giver: str


@dataclass(frozen=True, slots=True)
class RingLayout:
    """The rings of `family`: `first` is the site id of ring 0, and `machines` are its endpoints by rank.

    All rings have the same number of `acknowledging` followers.
    """

    family: str
    first: str
    rings: int
    machines: tuple[TcpEndpoint | IpcEndpoint, ...]
    acknowledging: int = 1

    def site(self, number: int) -> str:
        """Return the site id of a ring."""
        return site_of(self.family, number) if number else self.first

    def members(self, number: int) -> tuple[PlannedMember, ...]:
        """Return the members of a ring, by machine."""
        count = len(RANKS)
        endpoints = tuple(str(_shifted(self.machines[(rank + number) % count], number)) for rank in RANKS)
        ranks = ((machine - number) % count for machine in range(count))
        return tuple(PlannedMember(self.site(number), rank, endpoints) for rank in ranks)

    def doubled(self, rings: int) -> list[NewRing]:
        """Return the new rings of a growth to *rings*; raise `ConfigurationError` unless that is twice the rings."""
        check_rings(rings)
        if rings == self.rings > 1:
            raise ConfigurationError(
                f"`rings` is {rings} here already: run `lrq ring plan` for the settings of all rings, and go on "
                "with the next step of the growth (docs/running-a-ring.md)"
            )
        if rings != 2 * self.rings:
            raise ConfigurationError(
                f"the rings are {self.rings} and can only double, so that half of each ring's keys move: "
                f"run `lrq ring resize {2 * self.rings}`"
            )
        return [NewRing(self.site(self.rings + number), self.site(number)) for number in range(self.rings)]


def layout_of(site: str, setting: RingSetting) -> RingLayout:
    """Return the layout in which *site* has the table *setting*.

    Raises `ConfigurationError` for a name or for ports that no such layout has.
    """
    name = ring_name(site)
    share = share_of(site, setting.rings)
    if name.number != share.number:
        raise ConfigurationError(
            f"{site} is no name of the first ring, which ends with -0, or has no number: use another"
        )
    if name.number and share.rings % 3:
        raise ConfigurationError(
            f"the first ring is {name.family}, if it was alone once, or {site_of(name.family, 0)}: "
            "run the command with its settings"
        )
    count, number = len(RANKS), name.number
    own = [network_endpoint(member) for member in setting.members]
    machines = tuple(_shifted(own[(machine - number) % count], -number) for machine in range(count))
    first = site if number == 0 else site_of(name.family, 0)
    return RingLayout(name.family, first, setting.rings, machines, setting.acknowledging_followers)


def toml_of(member: PlannedMember, rings: int, acknowledging: int, database: PurePath, witness: PurePath) -> str:
    """Return the settings of *member* in the table `[ring]`, and those that differ; the files are at these paths."""
    lines = [
        f"site_id = {_quoted(member.site)}",
        f"database_url = {_quoted(f'sqlite:///{database}')}",
        f"listen = [{_quoted(member.endpoint)}]",
    ]
    if isinstance(network_endpoint(member.endpoint), TlsEndpoint):
        lines += [f"tls_certificate = {_quoted(f'{member.site}.pem')}", f"tls_key = {_quoted(f'{member.site}.key')}"]
    lines += [
        "[ring]",
        f"members = {json.dumps(member.members)}",
        f"rank = {member.rank}",
        f"rings = {rings}",
        *([f"acknowledging_followers = {acknowledging}"] if acknowledging != 1 else []),
        f"witness = {_quoted(str(witness))}",
    ]
    return "\n".join(lines)


def steps(new: Sequence[NewRing], rings: int) -> list[str]:
    """Return the steps of a growth to *rings* rings; in this order, the entries of each key stay in order."""
    sites, givers = _listed([each.site for each in new]), _listed([each.giver for each in new])
    return [
        f"Write the settings below for {sites}, and found them: `lrq init` and `lrq ring init`. Do not serve them yet.",
        f"Name all {rings} rings to the producers, once each has settled its requests: the new rings do not know them. "
        "Keys that move wait for step 5. Producers with the earlier list are refused for such keys after step 3.",
        f"Set `rings = {rings}` in the settings of {givers}. Restart all three servers of each, one after the other, "
        "until `lrq ring status` tells no trouble.",
        f"At the servers that lead {givers}: `lrq drain --applied`. Then the sinks have applied the moving keys.",
        f"Run `lrq serve` for {sites}.",
    ]


def _shifted(endpoint: TcpEndpoint | IpcEndpoint, number: int) -> TcpEndpoint | IpcEndpoint:
    """Return the endpoint of the ring *number* further on at the same machine."""
    if not number:
        return endpoint
    if isinstance(endpoint, TcpEndpoint):
        port = endpoint.port + number
        if not 0 < port < 2**16:
            raise ConfigurationError(f"{endpoint} has no port for a ring {number} further on: choose other ports")
        return type(endpoint)(endpoint.host, port)
    if number < 0 and not endpoint.path.endswith(f"-{-number}"):
        raise ConfigurationError(f"{endpoint} does not end with the number of its ring: end it with -{-number}")
    return IpcEndpoint(f"{endpoint.path}-{number}" if number > 0 else endpoint.path.removesuffix(f"-{-number}"))


def _quoted(text: str) -> str:
    return json.dumps(text)


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words)
