"""The demonstration: airports of the world, edited at one site, replicated to three others, and proved equal.

Read it as an example of how to use lrq, in this order: `airports` and `editor` (the application that sends),
`listener` (the one that receives), `snapshots` (the Spark job for sites that are new), `process` (what runs where).
The rest starts, watches, compares and shows.
"""

__all__ = ["run"]


def run(json_output: bool = False, *, databases: str | None = None) -> int:
    """Run it and return its exit code: 0 only if every site ended with exactly what it was owed.

    With *json_output*, one JSON object is printed, and what happens meanwhile goes to the standard error. *databases*
    is the URL of an empty database for each site, with `{site}` in place of its name; by default it is SQLite, in a
    folder that is removed at the end.
    """
    # Not above: the processes of the demonstration import this package too, and have no use for it.
    from lrq_cli.demo.performance import perform

    return perform(json_output=json_output, databases=databases)
