"""The ticks of the next batch of one stream, within the limits of a frame."""

from lr_server.session.outgoing import TickPart
from queues.block_limits import MAX_GROUPS, MAX_ROWS
from queues.positions import Position


class BatchDraft:
    """Collects ticks up to *max_bytes*, and up to the rows and ticks that a sink takes."""

    def __init__(self, start: Position, max_bytes: int) -> None:
        #: The position before the first tick.
        self.start = start
        self.pieces: list[TickPart] = []
        self._max_bytes = max_bytes
        self._size = self._rows = 0

    @property
    def is_quiet(self) -> bool:
        """Whether no tick has rows for the session."""
        return not self.pieces or self.pieces[0].is_quiet

    def drop_quiet_end(self) -> None:
        """Forget a last tick without rows: the next one goes beyond it."""
        if self.pieces and self.pieces[-1].is_quiet:
            self._size -= self.pieces.pop().size

    def is_full_for(self, piece: TickPart) -> bool:
        """Return whether *piece* must wait for the next batch."""
        # A batch exceeds the limit only if its single part does.
        too_many = len(self.pieces) == MAX_GROUPS or self._rows + piece.rows > MAX_ROWS
        return bool(self.pieces) and (too_many or self._size + piece.size > self._max_bytes)

    def add(self, piece: TickPart) -> None:
        """Append *piece*."""
        self.pieces.append(piece)
        self._size += piece.size
        self._rows += piece.rows

    def take(self) -> tuple[Position, list[TickPart]]:
        """Return the position before the batch, and its ticks; the next batch begins after them."""
        start, pieces = self.start, self.pieces
        if pieces:
            self.start = pieces[-1].end
        self.pieces, self._size, self._rows = [], 0, 0
        return start, pieces
