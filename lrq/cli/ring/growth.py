"""The rings beside the one of a site's file, as settings to write."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sqlalchemy import make_url

from lr_server import Settings
from lrq.cli.ring.members import ring_of
from lrq.cli.ring.plan import PlannedMember, RingLayout, layout_of, toml_of
from queues.database import urls


@dataclass(frozen=True, slots=True)
class RingFile:
    """The file of one ring: its site id, the layout of all rings, and its database and witness."""

    site: str
    layout: RingLayout
    database: Path
    witness: Path

    @classmethod
    def read(cls, config: Path | None) -> Self:
        """Read the settings; raise `ConfigurationError` for settings without a ring, or of no such layout."""
        settings = Settings.load(config)
        setting = ring_of(settings)
        database = urls.file_of(make_url(settings.database_url)) or Path(f"{settings.site_id}.db")
        return cls(settings.site_id, layout_of(settings.site_id, setting), database, setting.witness)

    def settings_of(self, number: int, rings: int) -> str:
        """Return the settings of a ring at each machine, as text for a person."""
        members = self.layout.members(number)
        return "\n".join(f"# {each.site}.toml at {each.endpoint}\n{self._toml(each, rings)}\n" for each in members)

    def as_json(self, number: int, rings: int) -> list[dict[str, Any]]:
        """Return the members of a ring, by machine."""
        return [
            {"site": each.site, "rank": each.rank, "endpoint": each.endpoint, "settings": self._toml(each, rings)}
            for each in self.layout.members(number)
        ]

    def _toml(self, member: PlannedMember, rings: int) -> str:
        database, witness = self.database, self.witness
        if member.site != self.site:
            database, witness = database.with_name(f"{member.site}.db"), witness.with_name(f"{member.site}.witness")
        return toml_of(member, rings, self.layout.acknowledging, database, witness)
