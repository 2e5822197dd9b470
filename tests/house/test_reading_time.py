"""From the front page to a first listener, a stranger reads and types for less than half an hour."""

import re

import pytest

from tools.reading_time import ROOT, Effort, effort, total

PAGE = """Two [words](of/a/target.md).

```python
# one.py
import one

one.run(  # a comment
    1)
```

```console
$ python one.py
three shown words
$ python one.py
```

```
 a picture of ─► boxes
```
"""
AGAIN = """```python
# one.py
import one

one.run(
    2)
```
"""


def test_the_path_takes_less_than_half_an_hour():
    assert total().minutes < 30


def test_the_guide_for_contributors_has_the_figure():
    assert f"in all {total().minutes:.0f} minutes" in " ".join((ROOT / "CONTRIBUTING.md").read_text().split())


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("", Effort(0, 0)),
        ("Two [words](of/a/target.md).", Effort(2, 0)),
        (PAGE, Effort(2 + 3, len("\nimport one\n\none.run(\n1)\n" + "python one.py\n" + "\n"))),
    ],
)
def test_prose_and_output_are_read_and_files_and_commands_are_typed(page: str, wanted: Effort):
    assert effort(page) == wanted


def test_of_a_file_that_comes_again_the_changed_lines_are_typed():
    assert effort(PAGE + AGAIN).characters - effort(PAGE).characters == len("one.run(\n2)\n")


def test_a_minute_is_two_hundred_words_or_characters():
    assert Effort(400, 100).minutes == 2.5


def test_each_command_of_the_front_page_is_counted():
    commands = re.findall(r"^(?:lrq|pip) .*", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 5
    assert effort((ROOT / "README.md").read_text()).characters > sum(map(len, commands))
