"""The databases, sockets and files of the demonstration."""

from dataclasses import dataclass
from pathlib import Path

from lr_server import Settings
from lrq.demo.airports import REGIONS, SOURCE

#: The client of all entries.
CLIENT = "airports"
SITES = (SOURCE, *REGIONS)


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of one run, and the URL of each site's database with `{site}` in place of its name."""

    folder: Path
    databases: str

    def database(self, site: str) -> str:
        """Return the URL of the database of *site*."""
        return self.databases.replace("{site}", site)

    def endpoint(self, site: str) -> str:
        """Return the endpoint of the server of *site*, which need not be running."""
        return f"ipc://{self.folder}/{site}.sock"

    def journeys(self, site: str) -> Path:
        """Return the file with the journeys of the entries that *site* has applied."""
        return self.folder / f"{site}.journeys"

    def settings(self, site: str) -> Settings:
        """Return the settings of the server of *site*: Paris sends to all others, and they listen."""
        peers = {name: self.endpoint(name) for name in REGIONS} if site == SOURCE else {}
        return Settings(
            site_id=site,
            database_url=self.database(site),
            listen=[self.endpoint(site)] if site != SOURCE else [],
            peers=peers,
            initial_sync="snapshot",  # the server starts before Spark, so it cannot know that snapshots will come
            retry_cap_seconds=1.0,
        )
