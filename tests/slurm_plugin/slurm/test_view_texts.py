"""Texts of users in a view of the cluster: each once, and of each user not more than so many."""

import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.errors import SlurmError
from slurm_plugin.config.settings import Snapshot
from slurm_plugin.service.accountant import Accountant, Kind, Principal, Resource
from slurm_plugin.slurm import commands, fields
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.slurm.sources import line
from slurm_plugin.slurm.view_texts import ViewTexts
from tests.slurm_plugin.slurm.slurm_text import TEXT
from tests.slurm_plugin.slurm.test_poller import Slurm

MIB = 2**20


def row(number, user, **texts):
    words = {
        "JobArrayID": str(number), "JobID": str(number), "ArrayJobID": str(number),
        "ArrayTaskID": "N/A", "State": "PENDING", "Partition": "batch", "NumNodes": 2,
        "Reason": "Priority", "UserName": user, "tres-alloc": "cpu=2,node=2", **texts,
    }  # fmt: skip
    return line(fields.JOB, words)


def look(rows, accountant, times=1):
    slurm = Slurm(texts={**TEXT, "squeue": "".join(rows)})
    poller = ClusterPoller(lambda: 1e9, how=Snapshot(), run=slurm, accountant=accountant)
    for _ in range(times):
        poller.look()
    return poller.raw.jobs


def test_a_users_long_names_are_left_out_beyond_the_limit_and_the_jobs_count():
    accountant = Accountant()
    fat = [row(n, "eve", Name=f"{n:04}" + "n" * 1000, WorkDir="/w" * 2000) for n in range(6000)]
    jobs = look([*fat, row(7000, "ann", Name="solve", Comment="nimo:app=cfd")], accountant, 3)
    assert len(jobs) == 6001
    assert (jobs[-1].name, jobs[-1].comment) == ("solve", "nimo:app=cfd")
    assert jobs[0].name == "0000" + "n" * 1000
    assert sum(len(one.name) for one in jobs if one.user == "eve") <= 4 * MIB
    assert all(one.nodes == 2 for one in jobs)
    held = accountant.of(Principal(Kind.USER, "eve")).held(Resource.VIEW_BYTES)
    assert 3 * MIB < held <= 4 * MIB
    assert [tuple(one) for one in accountant.refusals()] == [(Kind.USER, Resource.VIEW_BYTES, 3)]


def test_a_text_that_many_jobs_have_is_in_memory_once():
    accountant = Accountant()
    jobs = look([row(n, "eve", Name="n" * 1000) for n in range(5000)], accountant, 2)
    assert len({id(one.name) for one in jobs}) == 1
    assert accountant.of(Principal(Kind.USER, "eve")).held(Resource.VIEW_BYTES) < 2000


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.text(max_size=4), st.integers(0, 600_000)),
            max_size=12,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_held_is_what_the_last_look_took(looks):
    """Whatever came before, of each user no more than allowed, and nothing is left behind."""
    accountant = Accountant()
    texts = ViewTexts(accountant)
    for jobs in looks:
        with texts.look():
            made = [
                texts.of_job({"user": user, "name": text * (1 + size // max(len(text), 1))})
                for user, text, size in jobs
            ]
        for user in "abc":
            held = accountant.of(Principal(Kind.USER, user)).held(Resource.VIEW_BYTES)
            assert held <= 4 * MIB
        total = accountant.totals[Kind.USER, Resource.VIEW_BYTES]
        assert total == sum(sys.getsizeof(one) for one in {job["name"] for job in made} if one)
    with texts.look():
        pass
    assert accountant.totals[Kind.USER, Resource.VIEW_BYTES] == 0


def test_output_comes_piece_by_piece_and_is_never_whole_in_memory():
    """30 MB of squeue's output, one character of it beyond U+FFFF: as one text 120 MB."""
    code = (
        "import sys; text = chr(0x1F600) + 'n' * 5998\n"
        "for n in range(5_000): sys.stdout.write(f'{n}{text}END\\n')"
    )
    tracemalloc.start()
    try:
        argv = [sys.executable, "-X", "utf8", "-c", code]
        pieces = commands.records(argv, "END\n", timeout_s=100)
        numbers = [int(one.partition(chr(0x1F600))[0]) for one in pieces if one]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert numbers == list(range(5_000))
    assert most < 8 * MIB


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["/nonexistent/squeue"], "not found on PATH"),
        (["sh", "-c", "echo a; echo 'error: b' >&2; exit 3"], "sh: error: b"),
        (["sh", "-c", "echo a; exec sleep 60"], "no answer within 0.2 s"),
    ],
)
def test_a_command_that_fails_on_the_way_is_an_error(argv, words):
    with pytest.raises(SlurmError, match=words):
        list(commands.records(argv, "END", timeout_s=0.2 if "60" in argv[-1] else 60))


def test_what_is_not_read_to_its_end_leaves_no_process():
    code = "echo $$ END; yes | head -c 1000000; exec sleep 60"
    pieces = commands.records(["sh", "-c", code], "END", timeout_s=60)
    pid = int(next(pieces))
    pieces.close()
    assert subprocess.run(["ps", "-p", str(pid)], capture_output=True, check=False).returncode
