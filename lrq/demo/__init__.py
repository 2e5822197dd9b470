"""The demonstration: airports of the world, edited at one site, replicated to three others, and proved equal.

Read the package as an example of lrq, in this order:
* `airports` and `editor`: the application that sends.
* `listener`: the application that receives.
* `snapshots`: the Spark job for new sites.
* `process`: the function of each process.

The other modules start processes, watch and compare sites, and show the progress. The package `lrq.demo.ring` is a
second demonstration.
"""

__all__ = ["run"]


def run(json_output: bool = False, *, databases: str | None = None) -> int:
    """Run the demonstration; return 0 only if every site holds exactly the rows and entries addressed to it.

    With *json_output*, one JSON object is printed, and progress goes to the standard error. *databases* is the URL of
    an empty database for each site, with `{site}` for the site's name. The default is SQLite in a temporary folder.
    """
    # Imported here: the processes of the demonstration import this package, but not the modules that run it.
    from lrq.demo.performance import perform

    return perform(json_output=json_output, databases=databases)
