"""Scripts that never ran, on a real cluster: guessed by the words of those that did."""

import json

import pytest

from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from tests.end_to_end.site import site_on

SHORT, LONG = (
    "module load sort/1\nprepare --quick",
    "module load align/4\nassemble --whole --paired",
)
TEXT = """\
#!/bin/bash
#SBATCH -N1 -n1 -t5
module() {{ :; }}
{kind} {{ :; }}
{words}
sleep {time_s}
"""


@pytest.fixture(scope="module")
def kinds(slurm_cluster):
    """A site with a history of scripts of two kinds, each of which ran once."""
    with site_on(slurm_cluster, nodes=4, cpus=4) as site:
        site.run_nimod("observe")
        yield site


def script(site, number, words, time_s):
    """Write a script whose name says nothing of its kind."""
    program = words.splitlines()[1].split()[0]
    text = TEXT.format(kind=f"{program}()", words=words, time_s=time_s)
    return site.write_script(f"{'abcdefghijklmnop'[number] * 5}.sh", text)


def test_a_new_script_is_guessed_by_those_with_its_words(kinds):
    site = kinds
    site.settled()
    jobs = [(SHORT, 1), (LONG, 12)] * 5
    scripts = [script(site, n, words, time_s) for n, (words, time_s) in enumerate(jobs)]
    ids = [site.cluster.sbatch(one) for one in scripts]
    site.cluster.wait(*ids, accounted=True)
    site.learn()
    with Store.open(site.nimod.store) as store:
        rows = [row for _, own in store.runs.by_key(KeyLevel.USER) for row in own]
    bags = {row.job_id: row.script_bag for row in rows}
    assert all(bags[one] for one in ids)
    guessed = {}
    for number, words in ((10, SHORT), (11, LONG)):
        said = json.loads(
            site.advise("--json", script(site, number, words, 99), check=False).stdout
        )
        assert "not on this application" in said["verdict_text"], said
        guessed[words] = said["rows"][0]["time_s"]
    assert guessed[LONG] > 2 * guessed[SHORT]
