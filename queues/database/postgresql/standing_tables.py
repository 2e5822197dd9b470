"""Settings with which a migration works on the tables that stand already: in their schema, and as their owner.

Otherwise new tables would stand in another schema, or would belong to another role. The servers and applications of the
owner would then have no right to use them.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, text

from queues.sql_names import quoted


def settings_for(connection: Connection) -> Mapping[str, str]:
    """Return the settings for the site's tables that *connection* finds by their names; none without tables.

    The role is set only if the session may act as the owner, and the owner suffices for a migration.
    """
    found = connection.execute(_STANDING).first()
    if found is None:
        return {}
    path = {"search_path": quoted(found.schema)}
    return path if found.owner is None else path | {"role": found.owner}


# An object of another role would be no longer in reach. So then the role stays, as a superuser may need.
_STANDING: Final = text(r"""
    SELECT nspname AS schema, CASE WHEN pg_get_userbyid(s.relowner) <> current_user
      AND pg_has_role(
        session_user, s.relowner, CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END)
      AND has_schema_privilege(s.relowner, n.oid, 'USAGE') AND has_schema_privilege(s.relowner, n.oid, 'CREATE')
      AND NOT EXISTS (SELECT 1 FROM pg_class o WHERE o.relnamespace = n.oid AND o.relname LIKE 'lrq\_%'
        AND NOT pg_has_role(s.relowner, o.relowner, 'USAGE'))
      AND NOT EXISTS (SELECT 1 FROM pg_proc f WHERE f.pronamespace = n.oid AND f.proname LIKE 'lrq\_%'
        AND NOT pg_has_role(s.relowner, f.proowner, 'USAGE'))
      THEN pg_get_userbyid(s.relowner) END AS owner
    FROM pg_class s JOIN pg_namespace n ON n.oid = s.relnamespace WHERE s.oid = to_regclass('lrq_site')
""")  # noqa: E501 - one statement
