"""Find the member of a group of replicas that serves, and go on reading at another member (docs/replicas.md)."""

from typing import Final

from sqlalchemy import Connection, Engine

from queues import names
from queues.database.engine_check import require_engine
from queues.database.transactions import reading
from queues.errors import ConfigurationError, ServingUnknownError, VersionLostError
from queues.names import SiteId
from queues.positions import Position
from queues.receive.consumer_marks import IN_LOG
from queues.receive.member_marks import member_marks
from queues.receive.told_members import ToldMember, read_told
from queues.replica_groups import ActiveMember
from queues.send_log.replica_members import read_active

#: The age in seconds up to which a member believes the word of a source.
FRESH_SECONDS: Final = 10.0


def active_member(
    engine: Engine, name: str, *, source: str | None = None, known: int = 0, fresh_seconds: float = FRESH_SECONDS
) -> ActiveMember:
    """Return the member of the replicas *name* that serves.

    Args:
        engine: The database of the source, whose choice counts, or of a member, which its sources have told.
        name: The name of the group.
        source: At a member: the source that chooses. Needed if several sources send to the group.
        known: The newest generation that the caller has seen; an earlier choice is not believed.
        fresh_seconds: At a member: the age up to which the word of the source is believed.

    Raises `ServingUnknownError` if the word at hand is too old or too early, and `ConfigurationError` without such a
    group.

    Example:
        >>> active_member(engine, "tokyo").member
        'tokyo-a'
    """
    require_engine(engine, "active_member")
    group = names.site_id(name)
    with reading(engine) as connection:
        chosen = read_active(connection, [group])
        told = [] if chosen else [each for each in read_told(connection) if each.name == group]
    found = chosen[0] if chosen else _believed(group, told, source, fresh_seconds)
    if found.generation < known:
        raise ServingUnknownError(
            f"generation {found.generation} of {group} is known here, but generation {known} was seen elsewhere: "
            "ask at the source, or at another member"
        )
    return found


def require_continued(connection: Connection, client: str, source: str, position: Position) -> None:
    """Check at a member that its later entries are those that follow *position*, which was read at another member.

    The position of an entry is its `branch` and its `sequence`. Call this once after each change of the member that
    serves. Raises `VersionLostError` if the reader must begin with the whole state of this member. Raises
    `ServingUnknownError` while the member applies a snapshot.
    """
    marks = member_marks(connection, names.client_name(client), names.site_id(source), position)
    if marks is None or marks.phase != IN_LOG or marks.sync_id != marks.newest_sync_id:
        raise ServingUnknownError(f"a complete state of {client} from {source} is not here yet: try again later")
    is_shared = position.branch == marks.branch or marks.has_later_header
    # A snapshot holds earlier entries, and some of the ticks around its cut, without their numbers.
    is_before = bool(marks.sync_id) and (marks.has_cut or position.seq < marks.oldest_header_seq)
    if not is_shared or is_before:
        why = "the site began with a later snapshot" if is_shared else "the site has another history"
        raise VersionLostError(
            f"entries of {client} do not go on after {position} here, because {why}: read the whole state first"
        )


def _believed(group: SiteId, told: list[ToldMember], source: str | None, fresh_seconds: float) -> ActiveMember:
    wanted = [each for each in told if source in (None, each.source)]
    if not wanted:
        raise ConfigurationError(
            f"there are no replicas {group!r} here, and no source has told of them: ask at the source, or correct the "
            "name"
        )
    if len(wanted) > 1:
        listed = ", ".join(each.source for each in wanted)
        raise ConfigurationError(f"several sources have replicas {group!r} ({listed}): name one of them")
    [word] = wanted
    if word.age_us > fresh_seconds * 1_000_000:
        raise ServingUnknownError(
            f"{word.source} has not told for {word.age_us / 1_000_000:.0f} s which member of {group} serves: "
            f"ask at {word.source}, or at another member"
        )
    return ActiveMember(word.name, word.member, word.generation)
