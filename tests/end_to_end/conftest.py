"""One site for all end-to-end tests, with a history of the moldable program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.nimod import hooks_for
from tests.conftest import ClusterFactory, scratch_directory
from tests.end_to_end.site import Site


@pytest.fixture(scope="package")
def site(slurm_cluster: ClusterFactory) -> Iterator[Site]:
    """A site whose history holds the moldable program on 1, 2, 4 and 8 nodes; nimod enforces."""
    with (
        scratch_directory("nimo-site-") as directory,
        slurm_cluster(lua=hooks_for(directory)) as cluster,
    ):
        site = Site(directory, cluster)
        site.history()
        site.learn()
        site.run_nimod("enforce")
        yield site


@pytest.fixture
def enforcing(site: Site) -> Iterator[Site]:
    """The site with nimod enforcing and nothing in the queue."""
    site.empty_queue()
    yield site
    site.empty_queue()
