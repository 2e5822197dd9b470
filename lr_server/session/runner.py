"""The runner of one session: it passes events to the pure machine and carries out its effects.

The machine decides, and the runner keeps the order of its effects. So durable writes come before frames.
"""

from collections.abc import Callable, Sequence
from functools import partial

from lr_server.protocol import effects as do
from lr_server.protocol import events as happened
from lr_server.protocol.effects import Effect
from lr_server.protocol.events import Event, RefusalKind
from lr_server.protocol.machine import advance
from lr_server.protocol.states import (
    BackingOff,
    Draining,
    Failed,
    Finished,
    Idle,
    LogEntrySync,
    SessionStanding,
    SnapshotAwaiting,
    SnapshotTransferring,
    State,
    Stopped,
)
from lr_server.session.connection import SinkConnection
from lr_server.session.context import Leadership, SessionContext
from lr_server.session.edge import SessionEdge
from lr_server.session.failures import event_for
from lr_server.session.fence import SessionFence
from lr_server.session.link_end import LinkEnd
from lr_server.session.negotiations import Negotiations
from lr_server.session.replaced import ReplacedCount
from lr_server.session.snapshots import SessionSnapshots
from lr_server.session.standing import LastStanding
from lr_server.session.stream import FrameStream
from lr_server.session.turns import SlowWork, Turns
from queues.errors import LrqError, OwnershipLostError
from queues.logs import logger
from queues.send_log.port import SessionKey
from queues.send_snapshot import SnapshotSync

log = logger("lrq.session")


class Session:
    """One session (source × destination × client), from `start` to `stop`."""

    def __init__(self, owed: SessionKey, context: SessionContext, leadership: Leadership, *, replaced: int = 0) -> None:
        """Prepare the session; *replaced* entries were counted by earlier servers of the site."""
        self.owed = owed
        self.leadership = leadership
        self._context = context
        self._state: State = Idle()
        traffic, already_replaced = context.traffic(owed), ReplacedCount(replaced)
        traffic.forget()
        self._fence = SessionFence(
            context.engine, context.site, owed, leadership.lease,
            pause_seconds=context.limits.slow_retry_seconds, clock=context.clock,
            ring_generation=context.generation,
        )  # fmt: skip
        self._connection = SinkConnection(
            owed, context, leadership, self._fence, replaced=already_replaced, traffic=traffic, report=self._post
        )
        self._snapshots = SessionSnapshots(context.engine, owed, context.shown)
        self._standing = LastStanding(owed.destination, self._connection, already_replaced)
        self._link_end = LinkEnd(context.engine, owed)
        self._log = log.bind(client=owed.client, destination=owed.destination)
        self._turns = Turns(
            f"lrq-session-{owed.client}-{owed.destination}", self._take, self._finish, context.clock, context.on_ended,
            patience=context.limits.retry_patience,
        )  # fmt: skip
        negotiations = Negotiations(owed, context, leadership, self._connection, self._snapshots)
        self._edge = SessionEdge(
            owed, context, self._connection, negotiations, self._snapshots, self._link_end, self._standing, self._turns
        )

    # --- called by the supervisor -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to negotiate."""
        self._post(happened.Started())

    def stop(self, *, lost: str | None = None) -> None:
        """Ask the session to end; *lost* is the reason if another server leads the session now. See `join`."""
        self._post(happened.StopRequested() if lost is None else happened.OwnershipLost(lost))

    def join(self) -> None:
        """Wait for the end of the session; call `stop` first."""
        self._turns.join()

    def note_snapshot(self, newest: SnapshotSync | None) -> None:
        """Post the events of the newest snapshot request; the supervisor reads the requests of all sessions."""
        for event in self._snapshots.news(newest):
            self._post(event)
            if (stream := self._connection.stream) is not None:
                stream.look()

    def note_end(self, end: int, order: int) -> None:
        """Post that the link has ended by *order*, with all its entries in ticks up to *end*; may be repeated."""
        self._post(self._link_end.note(end, order))

    def begin_again(self) -> None:
        """Forget an end: the link has begun again before the session had finished."""
        if self._link_end.forget():
            self.reconnect("the link has begun again")

    @property
    def is_finished(self) -> bool:
        """Whether the sink has all entries and the end of the stream."""
        return isinstance(self._state, Finished)

    @property
    def has_given_up(self) -> bool:
        """Whether the session tries no more, because the settings limit its tries."""
        return isinstance(self._state, Failed) and self._state.is_final

    def check_connection(self) -> None:
        """Break a connection whose sink owes an answer for `stall_seconds`; the supervisor calls this.

        A session away from its preferred server moves back once that server can be reached again. A session whose
        stream shall have other threads connects again. Raises `RuntimeError` if the session needs a thread, and the
        machine has none.
        """
        self._turns.look_for_thread()
        stream = self._connection.stream
        if stream is not None and stream.is_stalled(self._context.limits.stall_seconds):
            stream.break_off(f"stalled: no acknowledgement for {stream.silent_seconds:.0f} s")
        if self._context.routes.is_home_again(self.owed):
            self.reconnect("the preferred server of the site can be reached again")
        if self._context.stream_threads.is_change_due(self.owed):
            self._post(happened.ChangeWanted())

    def retry_if_due(self) -> None:
        """Begin the next try if its time has come; the supervisor calls this."""
        self._turns.retry_if_due()

    def reconnect(self, why: str) -> None:
        """Break the connection, if there is one, and connect again; the supervisor calls this."""
        self._post(happened.PeerLost(why))

    @property
    def awaits_snapshot(self) -> bool:
        """Whether the session waits for a provider to complete its snapshot, perhaps with some rows sent."""
        return isinstance(self._state, SnapshotAwaiting | SnapshotTransferring)

    @property
    def standing(self) -> SessionStanding:
        """The facts to save; the same object while nothing changes, so that frequent reads are cheap."""
        return self._standing.at(self._state)

    # --- events -----------------------------------------------------------------------------------------------

    def _post(self, event: Event | None, stream: FrameStream | None = None) -> None:
        self._turns.post(event, stream)

    def _take(self, event: Event, stream: FrameStream | None) -> SlowWork:
        """Advance the machine; return the effects as slow work if one of them may wait."""
        if stream is not None and stream is not self._connection.stream:
            return None
        if isinstance(event, happened.Refused) and event.kind is RefusalKind.STALE_LEADER:
            # Only the database can tell whether this is so.
            return partial(self._take_succession, event)
        asked = self._advanced(event)
        if isinstance(self._state, Stopped) or not all(isinstance(effect, do.Report | do.Ignored) for effect in asked):
            return partial(self._carry_out_all, asked)
        self._carry_out_all(asked)
        return None

    def _take_succession(self, refused: happened.Refused) -> None:
        self._carry_out_all(self._advanced(self._succession(refused)))

    def _advanced(self, event: Event) -> Sequence[Effect]:
        self._context.routes.note(self.owed, event)
        try:
            self._state, asked = advance(self._state, event)
        except Exception as error:
            # A sink may have sent nonsense: only this session fails. The machine must take at least this event.
            if isinstance(event, happened.SourceFailed):
                raise
            self._log.exception("the session failed unexpectedly")
            self._post(event_for(error))
            return ()
        if isinstance(self._state, LogEntrySync | Draining):
            self._connection.progress.acked = self._state.acked
        # An effect may take long, and meanwhile the status shows the new state.
        self._context.changed.note(self.owed)
        return asked

    def _carry_out_all(self, asked: Sequence[Effect]) -> None:
        for effect in asked:
            is_discard = isinstance(effect, do.DiscardSnapshot)
            if isinstance(self._state, BackingOff | Failed | Stopped) and not is_discard:
                # No later event would repeat a lost delay: an error ends the session, and the server gives up the site.
                self._edge.carry_out(effect, self._state)
            elif not self._guarded(partial(self._edge.carry_out, effect, self._state)):
                break
        self._context.changed.note(self.owed)
        if isinstance(self._state, Stopped):
            self._turns.end()

    def _finish(self) -> None:
        # A session that ended by an error must not go on sending.
        self._connection.disconnect()
        self._context.changed.note(self.owed)
        self._context.routes.forget(self.owed)
        self._context.stream_threads.forget(self.owed)

    def _succession(self, refused: happened.Refused) -> Event:
        """Return the event of a sink that knows a later generation; only the own database replaces this server."""
        try:
            return self._fence.answer(refused)
        except Exception as error:  # noqa: BLE001 - the session shows the error and tries again
            if isinstance(error, OwnershipLostError):
                self._context.on_lost(error)
            return event_for(error)

    def _guarded(self, act: Callable[[], None]) -> bool:
        """Call *act* and return True; after an error post its event, which breaks the connection, and return False."""
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - the top of the loop: the error is posted, and the session tries again
            if not isinstance(error, LrqError):
                self._log.exception("the session failed unexpectedly")
            self._post(event_for(error))
            return False
        return True
