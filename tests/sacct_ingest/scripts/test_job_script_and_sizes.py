"""Scripts and command lines read as sbatch reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.scripts.job_script import (
    OPTIONS,
    Value,
    lookup,
    parse_command_line,
    parse_script,
    split_submit_line,
)
from sacct_ingest.scripts.script_sizes import fixed_sizes, task_multiple

SCRIPT = """\
#!/bin/bash -l
# what it is for
#SBATCH -N 4 -n16 --time=1:00:00   # four nodes
#SBATCH --job-name "big run" --exclusive
#SBATCH --comment=nimo:app=wrf\\ x
  # indented comment

##SBATCH --qos=high
 #SBATCH --account=other
#SBATCH -p batch#comment

module load wrf
#SBATCH --nodes=64
srun ./wrf.exe  # run it
"""


def test_options_up_to_the_first_command():
    assert dict(parse_script(SCRIPT).options) == {
        "nodes": "4",
        "ntasks": "16",
        "time": "1:00:00",
        "job-name": "big run",
        "exclusive": None,
        "comment": "nimo:app=wrf x",
        "partition": "batch",
    }


def test_the_body_is_what_the_script_does():
    script = parse_script(SCRIPT)
    assert script.body == "module load wrf\nsrun ./wrf.exe  # run it"
    assert not script.het


def test_later_options_go_before_earlier_ones():
    assert parse_script("#SBATCH -N 1\n#SBATCH --nodes=2\n").options == {"nodes": "2"}


@pytest.mark.parametrize("word", ["hetjob", "packjob"])
def test_components_of_a_script_have_their_own_options(word):
    script = parse_script(f"#!/bin/sh\n#SBATCH -N 1\n#SBATCH {word}\n#SBATCH -N 8\nsrun x\n")
    assert script.het
    assert (script.options, script.components) == ({"nodes": "1"}, ({"nodes": "8"},))


def test_windows_line_ends_do_not_stay_in_values():
    script = parse_script("#!/bin/sh\r\n#SBATCH -N 4\r\nsrun x\r\n")
    assert script.options == {"nodes": "4"}
    assert script.body == "srun x"


@pytest.mark.parametrize(
    ("words", "options", "script", "arguments"),
    [
        ("sbatch run.sh", {}, "run.sh", ()),
        ("/usr/bin/sbatch -N4 run.sh -n 3", {"nodes": "4"}, "run.sh", ("-n", "3")),
        ("sbatch -vvN 4 run.sh", {"verbose": None, "nodes": "4"}, "run.sh", ()),
        ("sbatch --nodes 2 --exclusive run.sh", {"nodes": "2", "exclusive": None}, "run.sh", ()),
        ("sbatch --exclusive=user run.sh", {"exclusive": "user"}, "run.sh", ()),
        ("sbatch --ntasks-per-n 8 run.sh", {"ntasks-per-node": "8"}, "run.sh", ()),
        ("sbatch -W -t 5 -- run.sh", {"wait": None, "time": "5"}, "run.sh", ()),
        ("sbatch --deadline=now+1hour run.sh", {"deadline": "now+1hour"}, "run.sh", ()),
        ("srun -W 5 -l ./a.out x", {"wait": "5", "label": None}, "./a.out", ("x",)),
        ("salloc -N 2 bash", {"nodes": "2"}, "bash", ()),
        ("sbatch -N 2", {"nodes": "2"}, "", ()),
        ("sbatch --site-option=3 run.sh", {"site-option": "3"}, "run.sh", ()),
        ("qsub run.sh", {}, "qsub", ("run.sh",)),
        ("", {}, "", ()),
    ],
)
def test_command_lines(words, options, script, arguments):
    line = parse_command_line(words.split())
    assert (line.options, line.script, line.arguments) == (options, script, arguments)


def test_components_of_a_command_line_have_their_own_options():
    line = parse_command_line(["sbatch", "-N", "1", ":", "-N", "2", "-n", "8", "run.sh", "x"])
    assert line.het
    assert (line.options, line.components) == ({"nodes": "1"}, ({"nodes": "2", "ntasks": "8"},))
    assert (line.script, line.arguments) == ("run.sh", ("x",))


@pytest.mark.parametrize("line", ["sbatch -N2 --wrap srun ./x -N 1", "sbatch --wrap=srun ./x -N 1"])
def test_all_that_follows_wrap_is_one_word(line):
    assert parse_command_line(split_submit_line(line)).options["wrap"] == "srun ./x -N 1"


@given(
    st.dictionaries(
        st.sampled_from(sorted(n for n, (_, k) in OPTIONS["sbatch"].items() if k is Value.NEEDED)),
        st.text(st.characters(codec="ascii", exclude_characters="\n\r\0"), min_size=1),
        max_size=5,
    )
)
def test_quoted_values_come_back(options):
    def quoted(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = [
        f"#SBATCH {f'-{name} ' if len(name) == 1 else f'--{name}='}{quoted(value)}"
        for name, value in options.items()
    ]
    result = parse_script("\n".join(["#!/bin/sh", *lines, "true"])).options
    for name in options:
        long_name = OPTIONS["sbatch"][name][0]
        same = [value for key, value in options.items() if OPTIONS["sbatch"][key][0] == long_name]
        assert result[long_name] == same[-1]


@given(st.text())
def test_no_text_is_too_odd(text):
    assert "\n" not in "".join(parse_script(text).options)
    command = parse_command_line(split_submit_line(text))
    assert not set(command.options) - {name for name, _ in OPTIONS["sbatch"].values()}


@pytest.mark.parametrize("program", sorted(OPTIONS))
def test_letters_stand_for_long_names(program):
    for name, (long_name, kind) in OPTIONS[program].items():
        assert lookup(program, long_name) == (long_name, kind), name


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("export OMP_NUM_THREADS=8", {"cpus": "OMP_NUM_THREADS=8"}),
        ('OMP_NUM_THREADS="4" ./solve', {"cpus": 'OMP_NUM_THREADS="4'}),
        ("export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK", {}),
        ("# export OMP_NUM_THREADS=8", {}),
        ("mpirun -np 16 ./solve", {"tasks": "-np 16"}),
        ("mpiexec.hydra -n 16 ./solve", {"tasks": "-n 16"}),
        ("mpirun -np $SLURM_NTASKS ./solve -n 16", {}),
        ("mpirun ./solve; ./other -np 4", {}),
        ("srun -n4 ./solve", {"tasks": "-n4"}),
        ("srun --ntasks=4 ./solve", {"tasks": "--ntasks=4"}),
        ("srun -N 2 ./solve", {"nodes": "-N 2"}),
        (
            "torchrun --nnodes=2 --nproc-per-node=4 t.py",
            {"gpus": "--nproc-per-node=4", "nodes": "--nnodes=2"},
        ),
        ("torchrun --nproc_per_node $SLURM_GPUS_ON_NODE t.py", {}),
        ("export CUDA_VISIBLE_DEVICES=0,1", {"gpus": "CUDA_VISIBLE_DEVICES=0,1"}),
        (
            "foamDictionary -entry numberOfSubdomains -set 16 system/decomposeParDict",
            {"tasks": "numberOfSubdomains -set 16"},
        ),
        (
            "echo 'numberOfSubdomains  8;' > system/decomposeParDict",
            {"tasks": "numberOfSubdomains  8"},
        ),
        ("foamDictionary -entry numberOfSubdomains -set $SLURM_NTASKS d", {}),
    ],
)
def test_what_a_script_fixes(line, result):
    assert fixed_sizes(f"#!/bin/bash\n#SBATCH -n 4\n{line}\n") == result


@pytest.mark.parametrize(
    ("line", "arguments", "multiple"),
    [
        ("srun vasp_std", "", 1),
        ("echo 'KPAR = 4' >> INCAR", "", 4),
        ("cat > INCAR <<END\nKPAR=2\nNCORE = 4\nEND", "", 8),
        ("cat > INCAR <<END\nNPAR=2\nNCORE = 4\nEND", "", 2),  # VASP goes by NPAR then
        ("cat > INCAR <<END\n# KPAR=2\nEND", "", 1),
        ("srun pw.x -nk 3 -in scf.in", "", 3),
        ("srun pw.x -npool 2", "", 2),
        ("srun ./solve -nklist 3 --xkpar=4", "", 1),
        ("run-vasp $@", "--kpar 4 --ncore=2", 8),
        ("KPAR=99999", "", 1),
    ],
)
def test_what_the_number_of_tasks_is_a_multiple_of(line, arguments, multiple):
    assert task_multiple(f"#!/bin/bash\n#SBATCH -n 4\n{line}\n", arguments) == multiple
