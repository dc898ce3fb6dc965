"""The bag of a script's words: what changes it, and how little it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.scripts.script_bag import BITS, bag_of

SCRIPT = "#!/bin/bash\n#SBATCH -N 4\nmodule load gcc/12 openmpi/4.1\nsrun ./solve --steps=500\n"


def bins(script):
    return int(bag_of(script) or "0", 16).bit_count()


@pytest.mark.parametrize(
    "same",
    [
        SCRIPT.replace("-N 4", "-N 8 -t 60"),
        SCRIPT + "# srun ./other\n",
        SCRIPT.replace("srun ./solve", "srun   ./solve"),
    ],
)
def test_options_comments_and_blanks_are_no_words(same):
    assert bag_of(same) == bag_of(SCRIPT)


@pytest.mark.parametrize("other", ["gcc/13", "openmpi/5.0", "./solver", "--steps=900"])
def test_each_module_program_and_setting_counts(other):
    old = {"gcc/13": "gcc/12", "openmpi/5.0": "openmpi/4.1", "./solver": "./solve"}
    changed = SCRIPT.replace(old.get(other, "--steps=500"), other)
    unlike = int(bag_of(changed), 16) ^ int(bag_of(SCRIPT), 16)
    assert unlike.bit_count() in (1, 2)  # two words may share a bin


def test_what_is_volatile_counts_not():
    runs = [f"srun solve /tmp/tmp.{name}/in.dat\n" for name in ("aB3dE6gH9k", "zY8xW7vU6t")]
    assert len(set(map(bag_of, runs))) == 1


def test_a_command_of_wrap_and_nothing_have_no_bag():
    wrapped = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\nsrun ./solve\n"
    assert [bag_of(text) for text in ("", "#!/bin/sh\n", wrapped)] == ["", "", ""]


@given(st.text())
def test_any_text_has_a_bag_of_one_length_or_none(text):
    bag = bag_of(text)
    assert len(bag) in (0, BITS // 4)
    assert set(bag) <= set("0123456789abcdef")


def test_words_share_bins():
    """Of a thousand programs four share each bin: a bin does not say which one it is."""
    each = {bag_of(f"program{n}") for n in range(1000)}
    assert len(each) <= BITS
    assert bins("\n".join(f"program{n}" for n in range(5000))) == BITS
