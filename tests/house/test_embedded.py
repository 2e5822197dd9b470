"""The program with both sites in docs/applications.md runs unchanged."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "applications.md").read_text()
SECTION = PAGE[PAGE.index("## Both sites in one program") :]


@pytest.mark.processes
def test_the_program_with_both_sites_delivers_its_entry(tmp_path: Path):
    (example,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines().count("paris b'rule 1'") == 1
