"""Jobs that outlast their plan on a disturbed cluster: none ends before its user's limit.

It takes minutes, on releases that have such limits: `make test-releases` runs it.
The same with three hundred jobs is `benchmarks/soft_limits_torture.py`.
"""

import pytest

from benchmarks.soft_limits_torture import CONF, tortured
from tests.end_to_end.site import site_on


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_no_job_ends_before_its_users_limit_whatever_happens_meanwhile(slurm_cluster):
    with site_on(slurm_cluster, nodes=8, conf=CONF) as site:
        if site.cluster.settings.version < (23, 11):
            pytest.skip("this release has no limits to plan with")
        made = tortured(site, 24, 15.0, 15.0)
    assert (made["before the user's limit"], made["lost"]) == (0, 0), str(made)
    assert made["planned with a minute"] > 12, str(made)
    assert made["ran longer"] > 4, str(made)
