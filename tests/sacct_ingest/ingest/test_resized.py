"""Jobs whose node count was changed: the time on their last nodes is no run time on them."""

import pytest

from sacct_ingest.ingest.into_store import ingest
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.sources.saved import SavedSacct
from tests.sacct_ingest.records import runs_with

HEADER = (
    "JobID|JobIDRaw|JobName|Cluster|User|State|Submit|Eligible|Start|End|ElapsedRaw|NNodes|ReqMem|"
    "SubmitLine\n"
)
_LINE = "sbatch --parsable -J resize -N2 run.sh"
#: As Slurm 22.05 and 24.11 print them; the first gives the rest the start of the whole job.
PARTS = {
    "22.05": (
        f"22|22|resize|pine|ada|RESIZING|1000|1000|1001|1010|9|2|4000M|{_LINE}\n",
        f"22|22|resize|pine|ada|COMPLETED|1010|1010|1001|1015|14|1|4000M|{_LINE}\n",
    ),
    "24.11": (
        f"22|22|resize|pine|ada|RESIZING|1000|1000|1001|1010|9|2|4000M|{_LINE}\n"
        "22.batch|22.batch|batch|pine||RESIZING|1001|1001|1001|1010|9|1||\n",
        f"22|22|resize|pine|ada|COMPLETED|1010|1010|1010|1015|5|1|0|{_LINE}\n",
    ),
}
OTHER = f"23|23|resize|pine|ada|COMPLETED|2000|2000|2001|2011|10|1|4000M|{_LINE}\n"
#: The parts in one window, in two, and in two that are read in the wrong order.
ORDERS = ((0, 1), (0, None, 1), (1, None, 0))


@pytest.mark.parametrize("release", PARTS)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_the_rest_of_a_resized_job_is_recognised_as_its_own(store, tmp_path, release, order):
    texts = "".join("\0" if i is None else PARTS[release][i] for i in order).split("\0")
    for text in [*texts, OTHER, *texts]:
        (tmp_path / "sacct.txt").write_text(HEADER + text)
        ingest(store, SavedSacct(tmp_path / "sacct.txt"), now_s=3000)
    rest, other = runs_with(store, KeyLevel.NAME, "ada/resize")
    assert (rest.submit_s, rest.state, rest.nodes) == (1010, JobState.RESIZING, 1)
    assert (other.state, other.elapsed_s) == (JobState.COMPLETED, 10.0)


def test_reading_it_again_changes_nothing(sqlite_store, tmp_path):
    file = tmp_path / "sacct.txt"
    file.write_text(HEADER + "".join(PARTS["24.11"]) + OTHER)
    first = ingest(sqlite_store, SavedSacct(file), now_s=3000)
    again = ingest(sqlite_store, SavedSacct(file), now_s=3000)
    assert (first.new, first.changed, first.unfinished) == (2, 0, 0)
    assert (again.new, again.changed, again.same) == (0, 0, 2)
