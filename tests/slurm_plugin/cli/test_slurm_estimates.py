"""``sbatch --test-only``: what is asked, how often, and what of the answer is believed."""

import os

import pytest

from sacct_ingest.errors import JobRefused, SlurmError
from slurm_plugin.cli import slurm_estimates
from slurm_plugin.cli.slurm_estimates import (
    EstimateRequest,
    StartEstimateCache,
    add,
    counts_of,
    run,
    starts,
    submission_of,
)
from slurm_plugin.config.settings import Advise
from slurm_plugin.protocol.advice_messages import ESTIMATE_COMMENT, Advice, Row
from tests.processes import LONGEST_WAIT_S

NOW = 1e9
REPORTED = (
    "sbatch: Job 7 to start at 1000000600 using 4 processors on nodes n[1-4] in partition batch\n"
)
JOB = EstimateRequest(options=("-t", "10"), script=("job.sh", "-N", "9"))


def row(nodes, wait_s=0.0, time_s=100.0, **fields):
    given = {"low_s": time_s, "high_s": time_s, "speedup": 1, "efficiency": 1, "node_hours": 1}
    return Row(nodes=nodes, wait_s=wait_s, time_s=time_s, **given, **fields)


def cache(folder, keep_s=60.0):
    return StartEstimateCache(folder / "c" / "estimates.json", keep_s=keep_s)


@pytest.mark.parametrize(
    ("words", "options", "script", "text"),
    [
        (["-N", "4", "--test-only", "job.sh", "-N"], ("-N", "4"), ("job.sh", "-N"), ""),
        (["--wrap", "hostname"], ("--wrap", "hostname"), (), ""),
        (["-t1", "--", "job.sh"], ("-t1",), ("job.sh",), ""),
        (["-t1"], ("-t1",), (), "#!/bin/sh\n"),
        (["-t1", "-"], ("-t1",), (), "#!/bin/sh\n"),
    ],
)
def test_a_command_line_is_taken_apart(words, options, script, text):
    result = submission_of(words, "#!/bin/sh\n")
    assert result == EstimateRequest(options=options, script=script, text=text)


def test_ours_come_after_the_users_options_and_before_the_script():
    assert JOB.argv(4) == [
        *("sbatch", "-t", "10", "--test-only", "--nodes=4", f"--comment={ESTIMATE_COMMENT}"),
        *("job.sh", "-N", "9"),
    ]


@pytest.mark.parametrize(
    ("drained", "opening"),
    [
        ("n7\nn7\nn8\n", "Slurm has no node for this job now, where n7, n8 are down or drained;"),
        ("", "No nodes here can run this job, .* it never starts: allocation failure: Requested"),
    ],
)
def test_a_job_that_would_wait_for_drained_nodes_is_not_called_refused(
    monkeypatch, drained, opening
):
    asked = []

    def refuse(*_, **__):
        raise JobRefused(
            "allocation failure: Requested node configuration is not available", exit_status=1
        )

    def nodes(argv, **_):
        asked.append(argv)
        return drained

    monkeypatch.setattr(slurm_estimates, "run", refuse)
    monkeypatch.setattr(slurm_estimates.commands, "run", nodes)
    with pytest.raises(JobRefused, match=opening):
        slurm_estimates.check(["-p", "gpu", "job.sh"], "", Advise())
    assert "--partition=gpu" in asked[0]


def test_a_job_that_slurm_does_not_take_is_called_refused(monkeypatch):
    def refuse(*_, **__):
        raise JobRefused("invalid partition specified: nix", exit_status=1)

    monkeypatch.setattr(slurm_estimates, "run", refuse)
    with pytest.raises(JobRefused, match=r"^Slurm would refuse this job: invalid partition"):
        slurm_estimates.check(["-p", "nix", "job.sh"], "", Advise())


def test_each_count_is_asked_once_a_minute(tmp_path):
    asked = []

    def answer(argv, text):
        asked.append(argv)
        return REPORTED

    for later in (0, 59):
        result = starts(JOB, [4, 8], answer, cache(tmp_path), now_s=NOW + later)
        assert result == {4: 1000000600.0, 8: 1000000600.0}
    assert len(asked) == 2
    starts(JOB, [4], answer, cache(tmp_path), now_s=NOW + 61)
    starts(EstimateRequest(options=("-t", "20")), [4], answer, cache(tmp_path), now_s=NOW + 61)
    assert len(asked) == 4


def test_a_count_that_is_refused_is_left_out_and_silence_ends_the_questions(tmp_path):
    said = {"--nodes=4": "allocation failure: too many", "--nodes=8": "no answer within 3 s"}
    asked = []

    def answer(argv, text):
        asked.append(argv[4])
        if argv[4] in said:
            raise SlurmError(said[argv[4]])
        return REPORTED

    result = starts(JOB, [4, 2, 8, 1], answer, cache(tmp_path), now_s=NOW)
    assert (set(result), asked) == ({2}, ["--nodes=4", "--nodes=2", "--nodes=8"])
    with pytest.raises(SlurmError, match="too many"):
        starts(JOB, [4], answer, cache(tmp_path), now_s=NOW)


def test_an_answer_without_a_start_is_none(tmp_path):
    with pytest.raises(SlurmError, match="no start"):
        starts(JOB, [4], lambda argv, text: "sbatch: hello\n", cache(tmp_path), now_s=NOW)


@pytest.mark.parametrize("text", ["", "[]", '{"a": 3}', '{"a": ["x", "y"]}'])
def test_a_broken_cache_is_no_trouble(tmp_path, text):
    remaining = cache(tmp_path)
    remaining.put("a", 5.0, now_s=NOW)
    (tmp_path / "c" / "estimates.json").write_text(text)
    assert remaining.get("a", now_s=NOW) is None
    remaining.put("a", 5.0, now_s=NOW)
    assert remaining.get("a", now_s=NOW) == 5.0


def test_a_cache_that_cannot_be_written_is_no_trouble(tmp_path):
    (tmp_path / "c").write_text("a file")
    broken = cache(tmp_path)
    broken.put("a", 5.0, now_s=NOW)
    assert broken.get("a", now_s=NOW) is None
    assert (tmp_path / "c").read_text() == "a file"


def test_the_recommended_count_is_asked_first_then_those_that_end_first():
    rows = [row(1, 0, 900), row(2, 500, 450), row(4, 600, 230, recommended=True), row(8, 0, 120)]
    assert counts_of(rows, 3) == [4, 8, 1]


@pytest.mark.parametrize(
    ("job", "how", "why"),
    [
        ({}, Advise(test_only=False), "does not let"),
        ({"het_job_offset": 0}, Advise(), "heterogeneous"),
    ],
)
def test_where_slurm_is_not_to_be_asked(job, how, why):
    with pytest.raises(SlurmError, match=why):
        add(Advice(rows=[row(1)]), ["job.sh"], job, how, now_s=NOW)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("sbatch: error: invalid partition specified: nix", JobRefused),
        ("allocation failure: Requested node configuration is not available", JobRefused),
        ("sbatch: fatal: Could not establish a configuration source", SlurmError),
        ("allocation failure: Unable to contact slurm controller (connect failure)", SlurmError),
    ],
)
def test_a_refusal_has_slurms_words_and_status(tmp_path, said, kind):
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 7\n")
    sbatch.chmod(0o755)
    with pytest.raises(SlurmError) as caught:
        run([str(sbatch)], "", environ={}, timeout_s=LONGEST_WAIT_S)
    assert type(caught.value) is kind
    assert said.removeprefix("sbatch: ").removeprefix("error: ") in str(caught.value)
    assert kind is SlurmError or caught.value.exit_status == 7


def test_sbatch_that_hangs_or_is_missing(tmp_path):
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(SlurmError, match=r"no answer within 0\.2 s"):
        run([str(program)], "", environ=os.environ, timeout_s=0.2)
    with pytest.raises(SlurmError, match="No such file"):
        run([str(tmp_path / "none")], "", environ=os.environ, timeout_s=LONGEST_WAIT_S)
