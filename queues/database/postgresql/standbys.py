"""The synchronous standby servers of a PostgreSQL primary, and the commits that wait for them."""

from typing import Final

from sqlalchemy import ColumnElement, Connection, Text, literal_column, select, text

from queues.database.standby_facts import USUAL_SECONDS, StandbyFacts, asked_for


class PostgresqlStandbys:
    """See `queues.database.dialect.Standbys`."""

    standby_setting: Final[ColumnElement[str]] = literal_column("current_setting('synchronous_standby_names')", Text())

    def standbys(self, connection: Connection) -> StandbyFacts | None:
        """Ask the views of the server; a server without the setting is asked for no more than the setting."""
        asked = asked_for(connection.execute(select(self.standby_setting)).scalar_one())
        if not asked:
            return StandbyFacts(0, 0)
        row = connection.execute(_FACTS, {"usual": USUAL_SECONDS}).one()
        return StandbyFacts(asked, row.present if row.is_visible else None, float(row.waiting or 0))


# Other roles see neither the states of standbys nor the waits of other roles.
_FACTS: Final = text("""
    SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS is_visible,
      (SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum'))
        AS present,
      (SELECT max(extract(epoch FROM clock_timestamp() - query_start)) FROM pg_stat_activity
       WHERE wait_event = 'SyncRep' AND query_start < clock_timestamp() - make_interval(secs => :usual)) AS waiting
""")
