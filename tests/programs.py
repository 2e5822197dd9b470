"""Programs that a set-up script of the project installs, and that some tests need."""

import os
import shutil

import pytest


def required(variable: str, *names: str, words: str) -> str:
    """Return the path of the program in *variable*, or of the first of *names* that is there.

    Without one, skip the test with *words*, and fail it if CI is set.
    """
    wanted = (os.environ.get(variable, ""), *names)
    found = next((path for name in wanted if name and (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    return found
