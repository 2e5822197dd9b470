"""docs/deploy.md, and its three blocks that no test types as printed."""

from typing import Final

from tests.deploy.kit import ROOT
from tests.house.page_blocks import take

PAGE: Final = (ROOT / "docs" / "deploy.md").read_text()
#: The blocks as they stand on the page. One needs a running systemd, the others an engine for containers.
BLOCKS: Final = take(__name__, "docs/deploy.md", "sh")
#: The commands of each block, one a line.
ON_SYSTEMD, ON_PODMAN, ON_COMPOSE = (block.replace("\\\n", " ").splitlines() for block in BLOCKS)
