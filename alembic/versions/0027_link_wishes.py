"""The view of links gets the name `lrq_links`; the table of that name, of wishes, is `lrq_link_wishes`."""

from typing import NamedTuple

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


class Names(NamedTuple):
    """The names of the table of wishes and of the view of links."""

    wishes: str
    links: str


BEFORE = Names("lrq_links", "lrq_link_states")
AFTER = Names("lrq_link_wishes", "lrq_links")


def upgrade() -> None:
    _rename(BEFORE, AFTER)
    # Earlier versions that know links read and write wishes under the old name.
    op.execute("UPDATE lrq_site SET oldest_schema = '0027'")


def downgrade() -> None:
    _rename(AFTER, BEFORE)
    op.execute("UPDATE lrq_site SET oldest_schema = '0018'")


def _rename(old: Names, new: Names) -> None:
    if op.get_context().dialect.name == "sqlite":
        _rename_on_sqlite(old, new)
    else:
        _rename_on_postgresql(old, new)


# ----------------------------------------------------------------------------------------------- PostgreSQL

# The name of the view while the table has neither name.
_PASSING = "lrq_links_in_passing"
_FUNCTIONS = "'lrq_transmit(text, bytea, text[], text, text, jsonb)', 'lrq_check_links(text, text[])'"
FUNCTIONS = """
DO $migration$
DECLARE
  own text := quote_ident(current_schema());
  name text;
  found text;
BEGIN
  FOREACH name IN ARRAY ARRAY[{functions}] LOOP
    found := pg_get_functiondef((own || '.' || name)::regprocedure);
    IF strpos(found, own || '.{old} l') = 0 THEN
      RAISE EXCEPTION '% is not the function of lrq: restore it, then migrate again', split_part(name, '(', 1);
    END IF;
    EXECUTE replace(found, own || '.{old} l', own || '.{new} l');
  END LOOP;
END $migration$
"""


def _rename_on_postgresql(old: Names, new: Names) -> None:
    """Rename table and view; both keep the rights that roles have on them."""
    # A reader locks the view, then its tables. In another order here the two could end in a deadlock.
    op.execute(f"ALTER VIEW {old.links} RENAME TO {_PASSING}")
    op.rename_table(old.wishes, new.wishes)
    op.execute(f"ALTER TABLE {new.wishes} RENAME CONSTRAINT pk_{old.wishes} TO pk_{new.wishes}")
    op.execute(f"ALTER VIEW {_PASSING} RENAME TO {new.links}")
    op.execute(FUNCTIONS.format(functions=_FUNCTIONS, old=old.wishes, new=new.wishes))


# --------------------------------------------------------------------------------------------------- SQLite

TRIGGER = """
CREATE TRIGGER lrq_transmit_links INSTEAD OF INSERT ON lrq_transmit BEGIN
  SELECT RAISE(ABORT, 'the link of the client to a destination has ended: leave the site out, or run `lrq link begin` (LR011)')
  WHERE EXISTS (SELECT 1 FROM {wishes} l WHERE l.client = NEW.client AND l.wish IN ('draining', 'ended')
    AND instr(',' || NEW.destinations || ',', ',' || l.destination || ','));
END
"""  # noqa: E501 - one constant text
VIEW = """
CREATE VIEW {links} AS
SELECT s.client, s.destination, coalesce(w.wish, 'running') AS wish, s.state, s.reason, s.branch,
  s.acked_seq, s.applied_seq, {updated} AS updated_at, {asked} AS asked_at, {ended} AS ended_at
FROM lrq_sessions s LEFT JOIN {wishes} w ON w.client = s.client AND w.destination = s.destination
UNION ALL
SELECT w.client, w.destination, w.wish, 'none', '', '', NULL, NULL, NULL, {asked}, {ended}
FROM {wishes} w
WHERE NOT EXISTS (SELECT 1 FROM lrq_sessions s WHERE s.client = w.client AND s.destination = w.destination)
"""
MOMENT = "strftime('%Y-%m-%dT%H\\:%M\\:%fZ', nullif({column}, 0) / 1000000.0, 'unixepoch')"
_TIMES = {"updated": "s.updated_us", "asked": "w.asked_us", "ended": "w.ended_us"}


def _rename_on_sqlite(old: Names, new: Names) -> None:
    """Copy the table: SQLite cannot rename a key, and renames no table beside a broken view of the application."""
    op.execute("DROP TRIGGER lrq_transmit_links")
    op.execute(f"DROP VIEW {old.links}")
    op.create_table(
        new.wishes,
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("wish", sa.Text(), nullable=False),
        sa.Column("asked_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("client", "destination", name=f"pk_{new.wishes}"),
    )
    columns = "client, destination, wish, asked_us, ended_us"
    op.execute(f"INSERT INTO {new.wishes} ({columns}) SELECT {columns} FROM {old.wishes}")  # noqa: S608 - our own names
    op.drop_table(old.wishes)
    times = {name: MOMENT.format(column=column) for name, column in _TIMES.items()}
    op.execute(VIEW.format(links=new.links, wishes=new.wishes, **times))
    op.execute(TRIGGER.format(wishes=new.wishes))
