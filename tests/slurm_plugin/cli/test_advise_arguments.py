import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_plugin.cli import advise


@pytest.mark.parametrize(
    ("words", "own", "sbatch"),
    [
        ("job.sh", "", "job.sh"),
        ("--all -N 4 job.sh a --all", "--all", "-N 4 job.sh a --all"),
        ("-N 4 --json job.sh", "--json", "-N 4 job.sh"),
        ("--store a.db --user ada job.sh", "--store a.db --user ada", "job.sh"),
        ("-o --json --json job.sh", "--json", "-o --json job.sh"),
        ("-vN 4 --json job.sh", "--json", "-vN 4 job.sh"),
        ("-N4 --json job.sh", "--json", "-N4 job.sh"),
        ("--exclusive --json job.sh", "--json", "--exclusive job.sh"),
        ("--json - x", "--json", "- x"),
        ("--json -- job.sh", "--json", "-- job.sh"),
        ("--nodes=4 --json", "--json", "--nodes=4"),
        ("--plot job.sh", "--plot", "job.sh"),
        ("--plot a.svg job.sh", "--plot a.svg", "job.sh"),
        ("--plot=a.svg job.sh b.png", "--plot=a.svg", "job.sh b.png"),
        ("--plot -N 4 job.sh", "--plot", "-N 4 job.sh"),
    ],
)
def test_our_options_are_distinguished_from_those_of_sbatch(words, own, sbatch):
    assert advise.split_arguments(words.split()) == (own.split(), sbatch.split())


_options = st.lists(
    st.sampled_from([["-N", "4"], ["--time=5"], ["--exclusive"], ["-vQ"], ["-J", "--all"]])
)


@given(_options, st.lists(st.sampled_from(["x", "--json", "-N"])))
def test_sbatchs_command_line_is_never_changed(options, arguments):
    line = [word for option in options for word in option] + ["job.sh", *arguments]
    assert advise.split_arguments(["--json", *line]) == (["--json"], line)
