"""The databases, sockets and files of the ring's demonstration."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lr_server import Settings
from lr_server.protocol.agreement.generations import RANKS

#: The site on the ring, and the site that receives.
RING: Final = "paris"
SINK: Final = "tokyo"
#: The servers of the ring, by rank.
MEMBERS: Final = tuple(f"{RING}-{rank}" for rank in RANKS)
#: The client of all entries, and the name of the producer.
CLIENT: Final = "numbers"
PRODUCER: Final = "meter"
#: Rank 1 takes over, if it hears the leader for no such time, in seconds.
LEASE: Final = 2.0


@dataclass(frozen=True, slots=True)
class RingPlaces:
    """The folder of one run. A server is named by one of `MEMBERS`, or is `SINK`."""

    folder: Path

    def database(self, server: str) -> str:
        """Return the URL of the database of *server*."""
        return f"sqlite:///{self.folder}/{server}.db"

    def endpoint(self, server: str) -> str:
        """Return the endpoint of *server*, which need not be running."""
        return f"ipc://{self.folder}/{server}.sock"

    @property
    def members(self) -> list[str]:
        """The endpoints of the ring's servers, by rank."""
        return [self.endpoint(member) for member in MEMBERS]

    def witness(self, member: str) -> Path:
        """Return the witness of *member*; outside of a demonstration, the file belongs on another disk."""
        return self.folder / f"{member}.witness"

    def config(self, member: str) -> Path:
        """Return the `lrq.toml` of *member*."""
        return self.folder / f"{member}.toml"

    def write_config(self, rank: int) -> None:
        """Write the `lrq.toml` of the server of *rank*."""
        member = MEMBERS[rank]
        self.config(member).write_text(f"""\
site_id = "{RING}"
database_url = {_text(self.database(member))}
listen = [{_text(self.endpoint(member))}]
ingest = true
retry_cap_seconds = 1.0

[peers]
{SINK} = {_text(self.endpoint(SINK))}

[producers]
{PRODUCER} = {{ clients = ["{CLIENT}"], destinations = ["{SINK}"] }}

[ring]
members = [{", ".join(map(_text, self.members))}]
rank = {rank}
witness = {_text(str(self.witness(member)))}
lease_seconds = {LEASE}
stall_seconds = {1.5 * LEASE}
""")

    def sink_settings(self) -> Settings:
        """Return the settings of the server that receives."""
        return Settings(site_id=SINK, database_url=self.database(SINK), listen=[self.endpoint(SINK)])


def _text(value: str) -> str:
    """Return *value* as TOML writes it: like JSON."""
    return json.dumps(value)
