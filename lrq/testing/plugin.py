"""The pytest plugin `lrq`: the fixtures `lrq_site` and `lrq_pair`, with the mark and the options of the ini file.

pytest loads this module in each of its runs. So the module imports other parts of lrq only when a test needs them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

try:
    import pytest
except ModuleNotFoundError:
    from queues.extras import require_package

    require_package("the plugin lrq.testing.plugin", "pytest", "pytest>=8.3")
    raise

if TYPE_CHECKING:
    from lrq.testing.local_site import LocalSite

_SITE = "lrq_site"
_SITES = "lrq_sites"
_MARK = "lrq(site=, sites=, folder=, **settings): the site of lrq_site; the sites and server settings of lrq_pair"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `lrq_site` and `lrq_sites` of the ini file."""
    parser.addini(_SITE, "id of the site that the fixture lrq_site makes", default="paris")
    parser.addini(_SITES, "ids of the sites that the fixture lrq_pair makes", type="args", default=["paris", "tokyo"])


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark `lrq`."""
    config.addinivalue_line("markers", _MARK)


@pytest.fixture
def lrq_site(request: pytest.FixtureRequest) -> "Iterator[LocalSite]":
    """Give an initialized site without a server, for one test: see `lrq.testing.site`."""
    from lrq.testing import site

    marked = _marked(request)
    with site(marked.get("site", request.config.getini(_SITE)), folder=marked.get("folder")) as made:
        yield made


@pytest.fixture
def lrq_pair(request: pytest.FixtureRequest) -> "Iterator[tuple[LocalSite, ...]]":
    """Give two or more sites whose servers replicate to each other, for one test: see `lrq.testing.pair`."""
    from lrq.testing import pair

    marked = _marked(request)
    sites = marked.pop("sites", request.config.getini(_SITES))
    marked.pop("site", None)
    if isinstance(sites, str):
        raise pytest.UsageError("`sites` of the mark lrq is a list of ids: write sites=['paris', 'tokyo']")
    with pair(*sites, **marked) as made:
        yield made


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the arguments of the test's marks; those of the nearest mark win."""
    merged: dict[str, Any] = {}
    for mark in request.node.iter_markers("lrq"):
        if mark.args:
            raise pytest.UsageError("the mark lrq takes names only: write @pytest.mark.lrq(site='paris')")
        merged = {**mark.kwargs, **merged}
    return merged
