"""Count the replaced entries of a session: each once, when the sink has acknowledged the tick without them."""

import threading
from collections import deque


class ReplacedCount:
    """The entries that were not sent, because a later entry of the same tick replaced them. For several threads."""

    def __init__(self, total: int = 0) -> None:
        """Go on from *total*, the number that an earlier server of the site has stored."""
        self._total = total
        # The sequence numbers at the ends of sent frames, with their replaced entries; no more than the window holds.
        self._sent: deque[tuple[int, int]] = deque()
        self._guard = threading.Lock()

    @property
    def total(self) -> int:
        """The number of replaced entries."""
        return self._total

    def begin(self) -> None:
        """Forget frames in flight: the same entries will be counted again if they are sent again."""
        with self._guard:
            self._sent.clear()

    def sent(self, end: int, replaced: int) -> None:
        """Note the *replaced* entries of a frame that ends at the sequence number *end*."""
        if replaced:
            with self._guard:
                self._sent.append((end, replaced))

    def acknowledged(self, upto: int) -> None:
        """Count the replaced entries of the frames up to *upto*."""
        with self._guard:
            while self._sent and self._sent[0][0] <= upto:
                self._total += self._sent.popleft()[1]
