"""The person at the command line, for the actions that a site stores."""

import getpass


def person() -> str:
    """Return the name of the user of the operating system."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        return "unknown user"
