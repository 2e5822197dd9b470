"""A trouble that lasts, which the status of the site shows. Pure."""

import math
from typing import Final

#: A trouble is shown once all looks of so many seconds have found one.
LASTS: Final = 10.0


class LastingTrouble:
    """The present trouble, once there has been one at every look for `LASTS` seconds."""

    def __init__(self) -> None:
        """Know no trouble yet."""
        self._since = math.inf

    def look(self, trouble: str, now: float) -> str:
        """Return *trouble*, found at *now*, if it lasts; empty otherwise."""
        self._since = min(self._since, now) if trouble else math.inf
        return trouble if now - self._since >= LASTS else ""
