"""The tables of a site's status."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rich.table import Table
from rich.text import Text

from discovery.receive_status import FailureStatus, ReceivePhase, ReceiveQueueStatus
from discovery.session_status import Lag, SessionStatus
from discovery.site_status import SiteStatus
from discovery.snapshot_status import SnapshotStatus
from lrq.cli.output import add, table
from lrq.cli.views.rates import Rates
from lrq.cli.words import NONE, duration, number, one_line, plural, rate, size
from queues.send_snapshot import EVERY_SITE
from queues.states import SessionState, SnapshotState

#: Maximum number of snapshots shown; `lrq snapshot list` shows the others.
SHOWN_SNAPSHOTS: Final = 8

_STATE_STYLES: Final[Mapping[StrEnum, str]] = {
    SessionState.LOG_ENTRY_SYNC: "green",
    SessionState.SNAPSHOT_SYNC: "cyan",
    SessionState.WAIT_FOR_APPLY: "cyan",
    SessionState.DRAINING: "cyan",
    SessionState.FINISHED: "dim",
    SessionState.FAILED: "bold red",
    SessionState.STOPPED: "dim",
    SessionState.INACTIVE: "dim",
    SnapshotState.APPLIED: "green",
    SnapshotState.READY: "cyan",
    SnapshotState.BUILDING: "cyan",
    SnapshotState.CANCELLED: "dim",
    ReceivePhase.LOG: "green",
    ReceivePhase.SNAPSHOT: "cyan",
    ReceivePhase.NOT_SUBSCRIBED: "dim",
}


def state_text(state: StrEnum, *, is_bad: bool = False) -> Text:
    """Show a state with its colour."""
    return Text.assemble(("● ", "bold red" if is_bad else _STATE_STYLES.get(state, "yellow")), state.value)


def age(moment_us: int, at_us: int) -> str:
    """Show the time from a moment to *at_us*."""
    return duration(max(at_us - moment_us, 0) / 1_000_000)


def owner_words(owner: str) -> str:
    """Show the host and process id of an owner."""
    host, _, rest = owner.partition(":")
    return f"{host} pid {rest.partition(':')[0]}" if rest else one_line(owner)


def sessions_table(status: SiteStatus, rates: Rates | None) -> Table:
    """Show each session with its state, lag and reason."""
    made = table(
        "Sessions", "client", "to", "state", *_server_column(status), ("acked", "right"), *_rate_column(rates),
        ("applied", "right"), ("behind", "right"), ("bytes", "right"), ("oldest", "right"), ("", "cut"),
    )  # fmt: skip
    for session in status.sessions:
        lag, bad = session.lag, session.stalled or session.state is SessionState.FAILED
        behind = [number(lag.entries), size(lag.bytes), duration(lag.seconds)] if lag.entries else [NONE] * 3
        add(
            made,
            [
                session.client,
                session.destination,
                state_text(session.state, is_bad=bad),
                *_server_cell(status, session),
                number(session.acked_seq),
                *_rate_cell(rates, "session", session.client, session.destination),
                NONE if session.applied_seq is None else number(session.applied_seq),
                *(Text(cell, style="yellow" if lag.entries else "dim") for cell in behind),
                _session_notes(session, is_bad=bad),
            ],
        )
    return made


def _session_notes(session: SessionStatus, *, is_bad: bool) -> Text:
    notes = [Text(one_line(session.reason), style="red" if is_bad else "")]
    if session.applied_lag.entries > session.lag.entries:
        notes.append(Text(_unapplied_words(session.applied_lag), style="yellow"))
    if session.replaced:
        notes.append(Text(f"{number(session.replaced)} replaced by later entries", style="dim"))
    why = Text(" · ").join(note for note in notes if note)
    return Text.assemble(("STALLED ", "bold red"), why) if session.stalled else why


def _server_column(status: SiteStatus) -> list[str]:
    return ["server"] if len(status.living) > 1 else []


def _server_cell(status: SiteStatus, session: SessionStatus) -> list[str]:
    if len(status.living) <= 1:
        return []
    return [owner_words(session.server) if session.server else NONE]


def _unapplied_words(lag: Lag) -> str:
    most = "up to " if lag.is_most else ""
    return f"not applied: {most}{number(lag.entries)}, oldest {duration(lag.seconds)}"


def snapshots_table(status: SiteStatus) -> Table:
    """Show the newest requests for snapshots."""
    made = table(
        "Snapshots", "client", "to", "state", ("rows", "right"), ("bytes", "right"), ("try", "right"),
        ("asked", "right"), ("", "cut"),
    )  # fmt: skip
    for snapshot in status.snapshots[:SHOWN_SNAPSHOTS]:
        add(made, snapshot_cells(snapshot, status.at_us))
    if (more := len(status.snapshots) - SHOWN_SNAPSHOTS) > 0:
        made.caption, made.caption_justify = Text(f"{more} older: lrq snapshot list"), "left"
    return made


def progress_words(snapshot: SnapshotStatus) -> str:
    """Describe the progress of a snapshot; an empty string if it is neither being built nor sent."""
    is_unbuilt = snapshot.state in (SnapshotState.REQUESTED, SnapshotState.BUILDING)
    said = snapshot.progress if is_unbuilt else ""
    words = [said] if said else []
    if snapshot.share is not None and not said.endswith("%"):
        words.append(f"{snapshot.share:.0%}")
    if snapshot.rows_per_second:
        words.append(f"{snapshot.rows_per_second:,.0f} rows/s")
    if snapshot.seconds_left is not None:
        words.append(f"{duration(snapshot.seconds_left)} left")
    if snapshot.cut_seconds is not None:
        words.append(f"cut held for {duration(snapshot.cut_seconds)}")
    return ", ".join(words)


def snapshot_cells(snapshot: SnapshotStatus, at_us: int) -> list[str | Text]:
    """Return the cells of one snapshot: client, destination, state, rows, bytes, attempt, age, words."""
    words = snapshot.error or progress_words(snapshot) or snapshot.reason
    is_bad = snapshot.is_failing
    return [
        snapshot.client,
        "every site" if snapshot.destination == EVERY_SITE else snapshot.destination,
        state_text(snapshot.state, is_bad=is_bad),
        number(snapshot.rows) if snapshot.rows else NONE,
        size(snapshot.bytes) if snapshot.bytes else NONE,
        number(snapshot.attempt) if snapshot.attempt else NONE,
        age(snapshot.requested_us, at_us),
        Text(one_line(words), style="red" if is_bad else ""),
    ]


def receive_queues_table(status: SiteStatus, rates: Rates | None) -> Table:
    """Show the receive queues and how far each is applied."""
    made = table(
        "Receive queues", "queue", "applying", ("received", "right"), *_rate_column(rates),
        ("applied", "right"), *_rate_column(rates), ("left", "right"), ("oldest", "right"), ("", "cut"),
    )  # fmt: skip
    for queue in status.receive_queues:
        left = queue.outstanding
        add(
            made,
            [
                queue.name,
                state_text(queue.phase, is_bad=bool(queue.failure)),
                number(queue.received_total),
                *_rate_cell(rates, "received", queue.name),
                number(queue.applied_total),
                *_rate_cell(rates, "applied", queue.name),
                Text(number(left) + "+" * queue.more if left else NONE, style="yellow" if left else "dim"),
                Text(duration(queue.oldest_seconds) if left else NONE, style="yellow" if left else "dim"),
                _notes(queue),
            ],
        )
    return made


def shards_table(status: SiteStatus) -> Table:
    """Show the shards of the receive queues that have several."""
    made = table(
        "Shards", "queue", ("shard", "right"), "subscription", ("up to", "right"), ("behind", "right"),
        ("applied", "right"), ("", "cut"),
    )  # fmt: skip
    for queue in status.receive_queues:
        for shard in queue.shards:
            behind = max(queue.received_seq - shard.applied_seq, 0)
            owner = Text(owner_words(shard.owner)) if shard.owner else Text("none works", style="red")
            add(
                made,
                [
                    queue.name,
                    number(shard.shard),
                    owner,
                    number(shard.applied_seq),
                    Text(number(behind) if behind else NONE, style="yellow" if behind else "dim"),
                    number(shard.applied_total),
                    _refusals(shard.failure) if shard.failure else Text(),
                ],
            )
    return made


def _refusals(failure: FailureStatus) -> Text:
    since = f" in {duration(max(failure.last_us - failure.first_us, 0) / 1_000_000)}" if failure.first_us else ""
    words = f"refused {plural(failure.tries, 'time')}{since}: {one_line(failure.error)}"
    return Text(words, style="red")


def _notes(queue: ReceiveQueueStatus) -> Text:
    notes = []
    if queue.failure:
        notes.append(_refusals(queue.failure))
    if queue.parked:
        notes.append(Text(f"{number(queue.parked)} parked", style="red"))
    if queue.staging:
        notes.append(Text(f"{plural(queue.staging.rows, 'row')} of a snapshot staged", style="cyan"))
    if (behind := queue.source_seq - queue.received_seq) > 0:
        notes.append(Text(f"source is {number(behind)} ahead", style="yellow"))
    return Text(" · ").join(notes)


def _rate_column(rates: Rates | None) -> list[tuple[str, str]]:
    return [] if rates is None else [("/s", "right")]


def _rate_cell(rates: Rates | None, *key: str) -> list[str]:
    return [] if rates is None else [rate(rates.of(*key)).removesuffix("/s")]
