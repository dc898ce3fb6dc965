"""One site for all end-to-end tests, with a history of the moldable program."""

from collections.abc import Iterator

import pytest

from tests.conftest import ClusterFactory
from tests.end_to_end.site import Site, site_on


@pytest.fixture(scope="package")
def site(slurm_cluster: ClusterFactory) -> Iterator[Site]:
    """A site whose history holds the moldable program on 1, 2, 4 and 8 nodes; nimod enforces."""
    with site_on(slurm_cluster) as site:
        counts = (("-N", str(n), "-t", "5") for n in (1, 2, 4, 8))
        site.run_and_learn(((one, site.script) for one in counts), repeats=2)
        yield site


@pytest.fixture
def enforcing(site: Site) -> Iterator[Site]:
    """The site with nimod enforcing and nothing in the queue."""
    site.empty_queue()
    yield site
    site.empty_queue()
