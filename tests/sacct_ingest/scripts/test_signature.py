"""The same application on the same problem gets the same keys, another one others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.records import CURVE_LEVELS, Identity, KeyLevel
from sacct_ingest.scripts.job_script import bounded_cache
from sacct_ingest.scripts.signature import identity_of_line, identity_of_request
from tests.sacct_ingest.records import run

SCRIPT = "#!/bin/sh\n#SBATCH -N 2\n# wrf\nsrun ./wrf.exe $1\n"
WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\nsrun ./x -a 'b c'\n\n"


def request(*argv, user="ada", name="wrf", comment="", script=SCRIPT):
    return identity_of_request(user=user, name=name, comment=comment, script=script, argv=argv)


def identity_of_run(made):
    return identity_of_line(made.user, made.name, made.comment, made.submit_line)


def line(submit_line, **given):
    return identity_of_run(run(submit_line=submit_line, **given)).line


@pytest.mark.parametrize(
    "submit_line",
    [
        "sbatch wrf.sh d01",
        "/usr/bin/sbatch -N 4 --ntasks-per-node=8 -t 10:00 wrf.sh d01",
        "sbatch --deadline=now+1hour -p batch --nodes 2-16 ./wrf.sh d01",
        "sbatch --parsable -J wrf /home/ada/wrf.sh d01",
    ],
)
def test_what_a_job_asks_for_takes_no_part(submit_line):
    assert line(submit_line) == request("/home/ada/wrf.sh", "d01").line != ""


def test_other_arguments_are_another_problem():
    keys = {line(f"sbatch wrf.sh {rest}") for rest in ("d01", "d02", "d01 -x", "")}
    assert len(keys) == 4


def test_other_users_and_names_are_other_lines():
    lines = {line("sbatch a.sh"), line("sbatch a.sh", user="bob"), line("sbatch a.sh", name="b")}
    assert len(lines) == 3


def test_wrapped_commands_agree():
    observed = line("sbatch -N2 --wrap srun ./x -a 'b c'", name="wrap")
    assert observed == request(name="wrap", script=WRAPPED).line != ""
    assert request(name="wrap", script=WRAPPED).script != ""


def test_quotes_that_sacct_lost_do_not_matter():
    assert line("sbatch wrf.sh in put.dat") == request("wrf.sh", "in put.dat").line


def test_a_comment_with_spaces_is_not_taken_for_the_script():
    tagged = "for the paper nimo:app=wrf"
    observed = line(f"sbatch --comment={tagged} -N 2 wrf.sh d01", comment=tagged)
    assert observed == request("wrf.sh", "d01").line


def test_nameless_scripts_from_standard_input_are_not_recognised_by_line():
    assert line("sbatch -N 2", name="sbatch") == ""
    assert line("sbatch -N 2", name="solver") != ""


def test_the_script_counts_without_comments_and_directives():
    other = "#!/bin/sh\n\n#SBATCH -N 64\n#SBATCH -t 5\n  srun ./wrf.exe $1\n# end\n"
    assert request("a.sh", "d01").script == request("b.sh", "d01", script=other).script != ""
    assert request("a.sh", "d01").script != request("a.sh", "d02").script
    assert request("a.sh").script != request("a.sh", script=SCRIPT + "sleep 1\n").script


def test_without_a_script_there_is_no_script_key():
    assert request("./a.out", "x", script="").script == ""
    assert request("./a.out", "x", script="").line == line("srun -n 8 ./a.out x")


def test_tags_are_read_on_both_sides():
    comment = "mine nimo:app=wrf,problem=d02"
    assert identity_of_run(run(comment=comment)).tag == "ada/wrf/d02"
    assert request(comment=comment).key(KeyLevel.TAG) == "ada/wrf/d02"
    assert request(comment=comment).application == "wrf/d02"


def test_a_run_of_nimo_learn_belongs_to_its_application_alone():
    made = {"name": "nimo-learn-blast-3f9a2bc41d7e-0", "comment": "nimo:off,app=blast,size=2G"}
    alone = Identity("ada", made["name"], tag="ada/blast")
    assert identity_of_run(run(submit_line="sbatch --wrap blast", **made)) == alone
    assert request("job.sh", **made) == alone
    assert request("job.sh", name=made["name"]).line


def test_every_key_is_its_users_own():
    ada, bob = (request("a.sh", user=user, comment="nimo:app=wrf") for user in ("ada", "bob"))
    assert all(ada.key(level) not in ("", bob.key(level)) for level in KeyLevel)
    nobody = request("a.sh", user="", comment="nimo:app=wrf")
    assert not any(nobody.key(level) for level in KeyLevel)


def test_keys_by_level():
    identity = identity_of_run(run(user="ada", name="wrf"))
    assert identity.key(KeyLevel.NAME) == "ada/wrf"
    assert identity.key(KeyLevel.USER) == "ada"
    assert identity.key(KeyLevel.SCRIPT) == ""
    assert set(CURVE_LEVELS) < set(KeyLevel)


@given(st.text(), st.text(), st.text(), st.text(), st.lists(st.text()))
def test_no_request_is_too_odd(user, name, comment, script, argv):
    identity = identity_of_request(user=user, name=name, comment=comment, script=script, argv=argv)
    assert identity == identity_of_request(
        user=user, name=name, comment=comment, script=script, argv=argv
    )


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1)


#: Words in the place of a script that name none: folders, and what divides components.
NO_FILES = (".", "..", ":")


@given(WORDS.filter(lambda w: w[0] != "-" and "/" not in w and w not in NO_FILES), st.lists(WORDS))
def test_both_sides_agree_on_any_words(script, arguments):
    words = " ".join([script, *arguments])
    assert line(f"sbatch -N 4 {words}") == request(f"/home/ada/{script}", *arguments).line


@pytest.mark.parametrize(
    "typed", ["in.dat", "./in.dat", ".//in.dat", "/home/ada/run/in.dat", "/home/ada/run/./in.dat"]
)
@pytest.mark.parametrize("option", ["", "--input="])
def test_a_path_is_the_same_however_it_is_typed(typed, option):
    folder = "/home/ada/run"
    asked = identity_of_request(
        user="ada",
        name="wrf",
        comment="",
        script="#!/bin/sh\nsrun wrf $1\n",
        argv=["wrf.sh", f"{option}in.dat"],
        work_dir=folder,
    )
    other = identity_of_request(
        user="ada",
        name="wrf",
        comment="",
        script="#!/bin/sh\nsrun wrf $1\n",
        argv=["wrf.sh", option + typed],
        work_dir=folder,
    )
    assert other == asked
    stored = identity_of_line("ada", "wrf", "", f"sbatch wrf.sh {option}{typed}", folder)
    assert stored.line == asked.line


@pytest.mark.parametrize("typed", ["./", "/home/ada/run", "/home/ada/run/"])
def test_so_is_the_working_directory_itself(typed):
    lines = {
        identity_of_line("ada", "wrf", "", f"sbatch wrf.sh {path}", "/home/ada/run").line
        for path in (".", typed)
    }
    assert len(lines) == 1


def test_a_path_elsewhere_is_another_problem():
    given = [
        identity_of_line("ada", "wrf", "", f"sbatch wrf.sh {path}", "/home/ada/run").line
        for path in (
            "in.dat",
            "/home/ada/in.dat",
            "../in.dat",
            "/home/ada/run2/in.dat",
            "run/in.dat",
        )
    ]
    assert len(set(given)) == len(given)


def test_short_texts_are_worked_out_once_and_of_long_ones_the_last():
    calls = []

    @bounded_cache(entries=2, characters=4)
    def length(*texts):
        calls.append(texts)
        return sum(map(len, texts))

    assert [length("ab", "cd"), length("ab", "cd")] == [4, 4]
    assert [length("ab", "cde"), length("ab", "cde"), length("abcdef"), length("abcde")] == [
        5,
        5,
        6,
        5,
    ]
    assert length("ab", "cde") == 5
    assert calls == [("ab", "cd"), ("ab", "cde"), ("abcdef",), ("abcde",), ("ab", "cde")]
