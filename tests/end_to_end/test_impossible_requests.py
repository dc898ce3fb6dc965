"""What Slurm would not take gets Slurm's words and status from nimo-advise; nothing to paste."""

import re

import pytest

REFUSED = {
    "no such partition": ("-p", "nix"),
    "more nodes than there are": ("-N", "100"),
    "no such feature": ("-C", "nofeature"),
    "no such account": ("-A", "nobody"),
    "no such device": ("--gres=gpu:1",),
    "an array that ends before it begins": ("--array=1-0",),
    "an array without steps": ("--array=1-9:0",),
    "an array of one at a time": ("--array=0-8:2%1",),
}


def test_a_cluster_that_nimod_does_not_serve_is_named(enforcing):
    argv = ("--clusters=other", enforcing.script)
    assert enforcing.cluster.run("sbatch", "--test-only", *argv, check=False).returncode
    reported = enforcing.advise(*argv, check=False)
    assert reported.returncode == 1
    assert "sbatch sends this job to the cluster other" in reported.stderr


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_slurm_has_the_word(enforcing, options):
    argv = (*options, enforcing.script)
    said = enforcing.cluster.run("sbatch", "--test-only", *argv, check=False)
    reported = enforcing.advise(*argv, check=False)
    if said.returncode == 0:  # this release takes it; nothing then speaks against advice
        assert "refuse" not in reported.stderr
        return
    assert reported.returncode == said.returncode
    words = re.sub(r"^sbatch: (error: )?", "", said.stderr.strip().splitlines()[-1])
    opening = "Slurm would refuse this job"
    if "node configuration is not available" in words:
        opening = "it never starts"
    text = " ".join(reported.stderr.split())
    assert f"{opening}: {words}" in re.sub(r"refuse this job: .*; ", "refuse this job: ", text)
    assert "#SBATCH" not in reported.stdout
    # What nimod itself doubts gets no predictions either.
    doubted = {REFUSED["no such partition"], REFUSED["more nodes than there are"]}
    assert reported.stdout == "" or options not in doubted


def test_what_slurm_takes_gets_advice(enforcing):
    for options in (("-p", "small"), ("-N", "8"), ("-N1-8", "--mem=100")):
        done = enforcing.advise(*options, enforcing.script, check=False)
        assert "root/moldable, " in done.stdout, done.stdout


def test_nothing_is_said_beyond_the_range_or_the_partition(enforcing):
    reported = enforcing.advise(
        "--all", "-p", "small", "-N1-8", enforcing.script, check=False
    ).stdout
    assert re.findall(r"^◆? +(\d+) +[\d.]+ (?:s|min|h) ", reported, re.MULTILINE) == ["1", "2"]
    assert all(int(n) <= 2 for n in re.findall(r"run on (\d+) node", reported))


@pytest.mark.long
def test_runs_that_reached_their_limit_are_reported(enforcing):
    script = enforcing.write_script("endless.sh", "#!/bin/sh\nsleep 600\n")
    jobs = [enforcing.submit("-t1", script=script) for _ in range(2)]
    enforcing.cluster.wait(*jobs, accounted=True)
    enforcing.learn()
    enforcing.settled()
    reported = enforcing.advise(script, check=False)
    assert reported.returncode == 3
    assert "All 2 runs of this command reached their time limit." in reported.stdout
