"""`lrq doctor`."""

from lrq.cli.exit_codes import Exit
from lrq.cli.options import Config, Database, Json, Site


def doctor(config: Config = None, database: Database = None, site: Site = None, as_json: Json = False) -> int:
    """Examine a site: its settings, database, rights, TLS files, libraries and peers.

    Each finding is ok, a warning or a problem with its cure. Nothing is changed, here or at a peer. Exit code 3
    means that there is a problem.
    """
    from lrq.cli.doctor.checkup import checkup
    from lrq.cli.doctor.findings import Severity, count
    from lrq.cli.doctor.view import show
    from lrq.cli.output import emit

    findings = checkup(config, database, site)
    problems = count(findings, Severity.PROBLEM)
    if as_json:
        emit({"ok": not problems, "findings": [each.as_json() for each in findings]})
    else:
        show(findings)
    return Exit.NO if problems else Exit.WELL
