"""Lines to paste count beside the command line that was typed."""

from dataclasses import replace

from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.reports.advice_text import for_command
from tests.slurm_plugin.reports.rows import advised

ADVICE = Advice(
    verdict="reliable",
    verdict_text="The prediction is reliable.",
    nodes=6,
    directive="#SBATCH --nodes=6",
    time_directive="#SBATCH --time=01:00:00 --time-min=00:57:00",
    reason="This count costs least.",
)


def lines(advice: Advice, *typed: str) -> list[str]:
    return advised(for_command(advice, typed), now_s=0.0).splitlines()


def test_a_wrapped_command_has_no_script_to_paste_into():
    assert lines(ADVICE, "wrap", "nodes")[-2:] == [
        "Options for sbatch:",
        "--nodes=6 --time=01:00:00 --time-min=00:57:00",
    ]
    elsewhere = replace(ADVICE, directive="#SBATCH --partition=fast\n#SBATCH --nodes=6")
    assert lines(elsewhere, "wrap")[-1] == (
        "--partition=fast --nodes=6 --time=01:00:00 --time-min=00:57:00"
    )
    kept = replace(ADVICE, nodes=None, directive="", reason="it asks for one count")
    assert lines(kept, "wrap")[-3:] == [
        "No recommendation: it asks for one count",
        "Options for sbatch:",
        "--time=01:00:00 --time-min=00:57:00",
    ]


def test_options_of_the_command_line_outrank_the_script():
    first = lines(ADVICE, "nodes", "partition")
    assert first[-3:-1] == [ADVICE.directive, ADVICE.time_directive]
    assert first[-1] == "--nodes of the command line outranks the script: leave out or change."
    assert lines(ADVICE, "time", "nodes")[-1].startswith("--nodes and --time of the command line")


def test_other_options_change_nothing():
    assert for_command(ADVICE, ["partition", "deadline"]) is ADVICE
    empty = Advice(verdict="unknown", verdict_text="Not enough is known.")
    assert for_command(empty, ["wrap", "nodes"]) is empty
