"""``nimo-advise --test-only`` beside a real Slurm with the hooks."""

import json
import time

from slurm_plugin.protocol.advice_messages import ESTIMATE_COMMENT


def test_slurm_is_asked_and_nothing_is_decided(enforcing):
    since = time.time()
    reported = enforcing.advise("--json", "--test-only", "-N", "1-8", "-t", "5", enforcing.script)
    rows = json.loads(reported.stdout)["rows"]
    said = {row["nodes"]: row["slurm_wait_s"] for row in rows if row["slurm_wait_s"] is not None}
    assert len(said) >= 2
    assert all(wait_s < 60 for wait_s in said.values())
    # The hook was called for each of them; only the job that comes after them is decided on.
    enforcing.submit("-N", "1-8", "-t", "5")
    assert ESTIMATE_COMMENT not in str(enforcing.decision(since_s=since))


def test_slurms_starts_come_after_the_advice(enforcing):
    reported = enforcing.advise("--test-only", "-N", "1-8", "-t", "5", enforcing.script).stdout
    assert reported.index("#SBATCH --nodes=") < reported.index("Starts as Slurm estimates them")
