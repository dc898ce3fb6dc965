"""A deadline that cannot be made is said (or refused); one that can is made."""

from __future__ import annotations

import time

from tests.end_to_end.site import Site
from tests.processes import ProcessError


def submit_refused(site: Site, *argv: str) -> str:
    """What sbatch says to a job that it refuses; empty when it is accepted."""
    try:
        site.submit(*argv)
    except ProcessError as error:
        return str(error)
    return ""


def test_a_deadline_within_reach_is_given_a_count_that_makes_it(enforcing: Site) -> None:
    plain, _ = enforcing.decided("-N", "1-8", "-t", "1", "--hold")
    job, decision = enforcing.decided("-N", "1-8", "-t", "1", "--deadline=now+3minutes")
    assert decision.applied, decision.reason
    assert decision.high_s is not None
    assert decision.deadline_s is not None
    assert time.time() + decision.high_s <= decision.deadline_s
    enforcing.cluster.wait(int(job["JobId"]), accounted=True)
    assert plain["JobState"] == "PENDING"
    rows = enforcing.cluster.sacct("-X", "-j", job["JobId"], fields=("State",))
    assert rows == [{"State": "COMPLETED"}]


def test_a_deadline_out_of_reach_is_warned_of_with_the_numbers(enforcing: Site) -> None:
    # Seventy seconds with a limit of one minute: Slurm itself accepts it, on one node at most.
    job, decision = enforcing.decided(
        "-N", "1", "-t", "1", "--begin=now+50", "--deadline=now+70seconds"
    )
    assert decision.reason == "deadline_missed"
    assert decision.message
    assert job["NumNodes"] == "1-1"


def test_a_site_may_refuse_it(site: Site) -> None:
    argv = ("-N", "1", "-t", "1", "--begin=now+50", "--deadline=now+70seconds")
    site.run_nimod("enforce", deadline={"missed": "refuse"})
    try:
        said = submit_refused(site, *argv)
        assert "deadline" in said.lower()
        assert "on 1 node," in said
        assert not submit_refused(site, "-N", "1", "-t", "1", "--deadline=now+10minutes")
    finally:
        site.run_nimod("enforce")


def test_the_scripts_own_deadline_counts_where_cli_filter_is_not_installed(
    enforcing: Site,
) -> None:
    own = enforcing.cluster.layout.etc / "cli_filter.lua"
    text = own.read_text()
    head, _, body = enforcing.script.read_text().partition("\n")
    text_with_deadline = f"{head}\n#SBATCH --deadline=now+20minutes\n{body}"
    script = enforcing.write_script("own-deadline.sh", text_with_deadline)
    own.write_text("function slurm_cli_setup_defaults() return slurm.SUCCESS end\n"
                   "function slurm_cli_pre_submit() return slurm.SUCCESS end\n"
                   "function slurm_cli_post_submit() return slurm.SUCCESS end\n")  # fmt: skip
    try:
        _, decision = enforcing.decided("-N", "1-8", "-t", "5", script=script)
    finally:
        own.write_text(text)
    assert decision.deadline_s is not None
    assert abs(decision.deadline_s - time.time() - 1200) < 60
