"""Failures of listeners with their tracebacks, the actions of operators, and views of links and their lag."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_FAILURES = ("lrq_consumer_failures", "lrq_shard_failures", "lrq_parked_entries")
_TEXTS = ("error_class", "place", "trace")

_VIEWS = ("lrq_lag", "lrq_link_states")

LINK_STATES = """
CREATE VIEW lrq_link_states AS
SELECT s.client, s.destination, coalesce(w.wish, 'running') AS wish, s.state, s.reason, s.branch,
  s.acked_seq, s.applied_seq, {updated} AS updated_at, {asked} AS asked_at, {ended} AS ended_at
FROM lrq_sessions s LEFT JOIN lrq_links w ON w.client = s.client AND w.destination = s.destination
UNION ALL
SELECT w.client, w.destination, w.wish, 'none', '', '', NULL, NULL, NULL, {asked}, {ended}
FROM lrq_links w
WHERE NOT EXISTS (SELECT 1 FROM lrq_sessions s WHERE s.client = w.client AND s.destination = w.destination)
"""
#: `place`: the log is applied up to there, at the destination as far as the source has heard, or here.
LAG = """
CREATE VIEW lrq_lag AS
SELECT 'send' AS direction, s.client, s.destination AS peer, s.state, s.reason,
  CASE WHEN s.state = 'inactive' OR s.place >= h.end_seq THEN 0 ELSE h.end_seq - s.place END AS entries,
  CASE WHEN s.state = 'inactive' THEN 0 ELSE coalesce((SELECT {now} - t.created_us / 1000000.0 FROM lrq_ticks t
    WHERE t.end_seq > s.place ORDER BY t.end_seq LIMIT 1), 0) END AS age_seconds,
  {now} - s.updated_us / 1000000.0 AS idle_seconds
FROM (
  SELECT client, destination, state, reason, updated_us, CASE
    WHEN applied_seq IS NULL OR applied_seq > acked_seq THEN acked_seq
    WHEN applied_seq > 0 THEN applied_seq
    ELSE coalesce((SELECT CASE WHEN n.state = 'applied' THEN n.base_seq ELSE 0 END FROM lrq_snapshots n
      WHERE n.client = lrq_sessions.client AND n.destination = lrq_sessions.destination
      ORDER BY n.requested_us DESC LIMIT 1), 0) END AS place
  FROM lrq_sessions
) s CROSS JOIN (SELECT coalesce(max(end_seq), 0) AS end_seq FROM lrq_ticks) h
UNION ALL
SELECT 'receive', q.client, q.source,
  CASE WHEN f.queue_id IS NOT NULL THEN 'blocked' WHEN q.phase IS NULL THEN 'not subscribed' ELSE q.phase END,
  coalesce(f.words, ''),
  coalesce((SELECT CAST(sum(CASE WHEN q.place > b.end_seq - b.row_count THEN b.end_seq - q.place
    ELSE b.row_count END) AS bigint) FROM lrq_receive_blocks b
    WHERE b.queue_id = q.queue_id AND b.end_seq > q.place), 0),
  NULL,
  {now} - q.updated_us / 1000000.0
FROM (
  SELECT r.queue_id, r.client, r.source, c.phase, c.updated_us, coalesce(CASE WHEN c.sync_id = m.sync_id THEN
    CASE WHEN c.back_seq >= 0 AND c.back_seq < c.seq THEN c.back_seq ELSE c.seq END END, 0) AS place
  FROM lrq_receive_queues r
  LEFT JOIN lrq_receive_marks m ON m.queue_id = r.queue_id
  LEFT JOIN lrq_consumers c ON c.queue_id = r.queue_id
) q LEFT JOIN (
  SELECT queue_id, min(words) AS words FROM (
    SELECT queue_id, error_class || CASE WHEN place = '' THEN '' ELSE ' (' || place || ')' END AS words
    FROM lrq_shard_failures
    UNION ALL
    SELECT queue_id, error_class || CASE WHEN place = '' THEN '' ELSE ' (' || place || ')' END
    FROM lrq_consumer_failures
    WHERE NOT EXISTS (SELECT 1 FROM lrq_shard_marks k WHERE k.queue_id = lrq_consumer_failures.queue_id)
  ) each_failure GROUP BY queue_id
) f ON f.queue_id = q.queue_id
"""


def _moment(column: str) -> str:
    """Return the SQL for a time, which is NULL instead of 0."""
    if op.get_context().dialect.name == "postgresql":
        return f"to_timestamp(nullif({column}, 0) / 1000000.0)"
    return f"strftime('%Y-%m-%dT%H\\:%M\\:%fZ', nullif({column}, 0) / 1000000.0, 'unixepoch')"


def _now() -> str:
    if op.get_context().dialect.name == "postgresql":
        return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
    return "(julianday('now') - 2440587.5) * 86400.0"


def upgrade() -> None:
    for table in _FAILURES:
        for column in _TEXTS:
            op.add_column(table, sa.Column(column, sa.Text(), nullable=False, server_default=sa.text("''")))
        op.add_column(table, sa.Column("first_us", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("lrq_parked_entries", sa.Column("last_us", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("lrq_parked_entries", sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "lrq_actions",
        sa.Column("action_id", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("action_id", name="pk_lrq_actions"),
    )
    op.create_index("ix_lrq_actions_at_us", "lrq_actions", ["at_us"])
    times = {"updated": "s.updated_us", "asked": "w.asked_us", "ended": "w.ended_us"}
    op.execute(LINK_STATES.format(**{name: _moment(column) for name, column in times.items()}))
    op.execute(LAG.format(now=_now()))


def downgrade() -> None:
    for view in _VIEWS:
        op.execute(f"DROP VIEW {view}")
    op.drop_table("lrq_actions")
    for column in ("attempts", "last_us"):
        op.drop_column("lrq_parked_entries", column)
    for table in _FAILURES:
        for column in ("first_us", *_TEXTS):
            op.drop_column(table, column)
