"""The error for a character that the encoding of a database lacks. Pure."""

from queues.errors import ConfigurationError


def lacking(error: UnicodeEncodeError) -> ConfigurationError | None:
    """Return our error for a driver's that cannot write a text in the database's encoding; None for another error."""
    if error.encoding.lower().startswith("utf"):
        return None
    character = error.object[error.start]
    return ConfigurationError(
        f"the database has the encoding {error.encoding}, which lacks the character {character!r}: "
        "leave the character out, or create the database with ENCODING 'UTF8'"
    )
