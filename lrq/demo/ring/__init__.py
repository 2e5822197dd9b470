"""The demonstration of a ring: three servers keep one log, while one is killed and another cut off.

Read the package as an example of a ring, in this order:
* `places`: the files and the settings of each server.
* `founders`: the tables, and the three empty stores that count at once.
* `meter`: the producer, which needs no database.
* `listener`: the application that receives.
* `story`: the order of events.

The other modules start processes, compare the files, and tell the progress.
"""

__all__ = ["run"]


def run(json_output: bool = False) -> int:
    """Run the demonstration; return 0 only if each acknowledged entry arrived once, in order, and the files are alike.

    With *json_output*, one JSON object is printed, and progress goes to the standard error.
    """
    # Imported here: the processes of the demonstration import this package, but not the modules that run it.
    from lrq.demo.ring.performance import perform

    return perform(json_output=json_output)
