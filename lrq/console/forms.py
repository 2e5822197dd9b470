"""The bodies of forms, bounded, and the actions that they ask for."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

from lr_client.replays import replay_moment, replay_wish
from lrq.console.actions import Action, ActionKind
from queues.errors import UsageError
from queues.receive.replays import ReplayWish

#: The longest body of a form, in bytes.
MOST_BYTES: Final = 128 * 1024


class Form:
    """The fields of a form; a missing field is an empty text."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        self._fields = fields

    @classmethod
    async def of(cls, request: Request) -> "Form":
        """Read the body of *request*; raise `UsageError` for one that is too long or no form."""
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise UsageError("the form is too long: choose fewer lines")
        try:
            return cls(parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=20_000))
        except ValueError:
            raise UsageError("the form cannot be read: load the page again") from None

    def get(self, name: str) -> str:
        """Return a field."""
        return self._fields.get(name, [""])[0]

    def all(self, name: str) -> Sequence[str]:
        """Return all values of a field."""
        return self._fields.get(name, [])

    def items(self) -> list[tuple[str, str]]:
        """Return all fields but the hidden ones of the console, to ask for a confirmation."""
        return [(name, each) for name, values in self._fields.items() if name != "token" for each in values]

    def number(self, name: str) -> int | None:
        """Return a field as a number, None for a missing one; raise `UsageError` for another text."""
        try:
            return int(self.get(name)) if self.get(name) else None
        except ValueError:
            raise UsageError("the form cannot be read: load the page again") from None

    def action(self) -> Action:
        """Return the wanted action; raise `UsageError` if the form names none."""
        try:
            kind = ActionKind(self.get("do"))
            ids = tuple(int(each) for each in self.all("id"))
            shard, seq = self.number("shard"), self.number("seq")
        except ValueError:
            raise UsageError("the form names no action: load the page again") from None
        return Action(
            kind,
            ids,
            self.get("sync_id"),
            self.get("client"),
            self.get("destination"),
            self.get("source"),
            shard,
            seq,
            self._wish() if kind is ActionKind.REPLAY else None,
            self.get("order"),
        )

    def _wish(self) -> ReplayWish:
        """Return the entries that the form orders again; raise `UsageError` if it names them wrongly."""
        start, since = self.get("from").strip(), self.get("since").strip()
        moment = replay_moment(since) if since else None
        return replay_wish(start or None, moment, undo=not self.get("without_undo"))

    def back(self) -> str:
        """Return the page to show after the action, a path inside the console."""
        path = self.get("back")
        is_inside = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
        return path if is_inside else "/"
