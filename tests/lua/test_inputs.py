"""How large the files are that a submission names, as the hook in sbatch sees them."""

import json
import os
import shutil
import subprocess
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sacct_ingest.files.looked_at import kind_of, see
from sacct_ingest.runs.input_sizes import sizes_of, to_text
from sacct_ingest.scripts.input_words import input_words
from tests import odd_files
from tests.cluster.nimod import copy_hooks
from tests.conftest import unavailable
from tests.hanging_mount import hanging_mount
from tests.lua.hooks import HERE
from tests.processes import LONGEST_WAIT_S

#: As long as a busy machine takes to look.
LONG_MS = 10_000_000
CONF = "forward_deadline = yes\nlook_at_inputs = yes\n"


def module(hooks, name="nimo_files"):
    return hooks.lua.eval(f"dofile('{hooks.folder}/{name}.lua')")


@pytest.mark.parametrize(
    "name",
    ["a.b.Fastq.GZ", "/data.d/x.bam", "part.001", ".bashrc", "x", "a.gz", "a.tar.gz", "é.é", "a."],
)
def test_kinds_are_those_of_nimo_advise(hooks, name):
    kind = module(hooks).kind_of(name.encode().decode("latin-1"))
    assert str(kind) == kind_of(name).replace(".", "D")


@pytest.mark.parametrize(
    "files",
    [
        [],
        [("bam", 1200)],
        [("bam", 0), ("", 0)],
        [("bam", 2**41), ("fastq.gz", 7), ("fastq.gz", 8)],
        [("a", 5), ("b", 5), ("c", 6), ("d", 1), ("e", 2), ("", 3)],
        [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 0)],
    ],
)
def test_texts_are_those_of_nimo_advise(hooks, files):
    lines = "".join(f"{kind.replace('.', 'D')}=2={size}\n.\n" for kind, size in files)
    sizes = sizes_of((kind, 2, size) for kind, size in files)
    assert str(module(hooks, "nimo_look").sizes_text(lines)) == to_text(sizes)


def test_without_luaposix_the_command_goes_on(runtime, tmp_path):
    (tmp_path / "in.dat").write_text("x")
    hooks = runtime(CONF).load_cli_filter()
    options = hooks.filter(type="sbatch", argv=["job.sh", "in.dat"], chdir=str(tmp_path))
    assert "comment" not in options


def test_sizes_arrive_and_the_comment_comes_back(runtime):
    hooks = runtime(CONF).load()
    hooks.answer({"v": 1})
    comment = "nimo{deadline=,inputs=2Kbam=1KfastqDgz=22,own=4} mine"
    assert hooks.submit(comment=comment).job["comment"] == "mine"
    assert hooks.asked()[-1]["job"]["inputs"] == "2Kbam=1KfastqDgz=22"


@pytest.fixture
def folder(tmp_path):
    if shutil.which("lua5.1") is None:
        unavailable("not installed: lua5.1")
    probe = ["lua5.1", "-e", 'require("socket.unix") require("posix.unistd")']
    if subprocess.run(probe, check=False, capture_output=True).returncode:
        unavailable("not installed: lua-socket, lua-posix")
    copy_hooks(tmp_path / "hooks", most_ms=LONG_MS)
    write_settings(tmp_path, LONG_MS)
    (tmp_path / "in.bam").write_bytes(b"x" * 1000)
    return tmp_path


def write_settings(folder, inputs_ms):
    conf = f"{CONF}inputs_ms = {inputs_ms}\nkill_switch = {folder}/off\n"
    (folder / "hooks/nimo_hook.conf").write_text(conf)


def filtered(folder, *argv, times=1, environment=None, **options):
    """Pass a command through the hook; gives its comment, and what the last time took."""
    (folder / "job.sh").exists() or (folder / "job.sh").write_text("#!/bin/sh\n")
    asked = {"type": "sbatch", "chdir": str(folder), "argv": [f"{folder}/job.sh", *argv]} | options
    command = ["lua5.1", HERE / "filter.lua", folder / "hooks", json.dumps(asked), times]
    environ = {k: v for k, v in os.environ.items() if k not in ("SLURM_JOB_ID", "NIMO_INPUTS")}
    done = subprocess.run(
        list(map(str, command)),
        check=True,
        capture_output=True,
        text=True,
        timeout=LONGEST_WAIT_S,
        env=environ | {"XDG_RUNTIME_DIR": str(folder)} | (environment or {}),
    )
    said = json.loads(done.stdout)
    took = [float(one) for one in said["took_ms"].split()]
    return said.get("comment"), took


def inputs_of(folder, *argv, **options):
    """Sizes that the hook sends."""
    comment, _ = filtered(folder, *argv, **options)
    assert comment.startswith("nimo{deadline=,inputs=")
    return comment.partition("inputs=")[2].partition(",own=")[0]


def test_files_that_a_command_names(folder):
    (folder / "ref").mkdir()
    for number in range(100):
        (folder / f"ref/{number}.fa").write_bytes(b"x")
    assert inputs_of(folder, "in.bam", "nowhere.bam", "ref/", comment="mine") == "101Kbam=1000K=100"


def test_files_that_its_script_names(folder):
    (folder / "job.sh").write_text('#!/bin/sh\nsolve "$1" < ref.fa > out.txt\n')
    (folder / "ref.fa").write_bytes(b"x" * 7)
    assert inputs_of(folder, "in.bam") == "2Kbam=1000Kfa=7"
    (folder / "job.sh").chmod(0o444)
    assert inputs_of(folder, input="ref.fa") == "1Kfa=7"


def test_files_of_wrap(folder):
    options = {"argv": [], "wrap": "solve in.bam"}
    assert inputs_of(folder, **options) == "1Kbam=1000"


def test_what_is_no_plain_file_is_left_out(folder):
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")
    named = ["fifo", "loop", "/dev/zero", "a\nb.txt", "in.bam", "fif?"]
    assert inputs_of(folder, *named) == "1Kbam=1000"


def test_a_folder_of_a_thousand_files_is_seen_and_a_larger_one_skipped(folder):
    (folder / "many").mkdir()
    for number in range(1000):
        (folder / f"many/{number}.fa").write_bytes(b"x")
    assert inputs_of(folder, "many", "in.bam") == "1001Kbam=1000K=1000"
    assert inputs_of(folder, "many/*.fa", "in.bam") == "1001Kbam=1000Kfa=1000"
    (folder / "many/more").touch()
    assert inputs_of(folder, "many", "many/*.fa", "in.bam") == "1Kbam=1000"


def test_patterns_in_the_command_line_and_the_script(folder):
    (folder / "data").mkdir()
    for name in ("s1.fq.gz", "s2.fq.gz", "s10.fq.gz", "s\xe9.fq.gz", ".s3.fq.gz", "notes.txt"):
        (folder / "data" / name).write_bytes(b"x" * 10)
    assert inputs_of(folder, "data/s?.fq.gz", "*.bam") == "4Kbam=1000KfqDgz=30"
    (folder / "job.sh").write_text("#!/bin/sh\nfor f in data/*.fq.gz; do align $f; done\n")
    assert inputs_of(folder) == "4KfqDgz=40"


NAMES = st.text("ab.é%-+^", min_size=1, max_size=5).filter(lambda name: name.strip("."))
PATTERNS = st.lists(NAMES | st.sampled_from("*?"), min_size=1, max_size=6).map("".join)


@settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(
    files=st.dictionaries(st.tuples(NAMES, NAMES), st.integers(1, 9), max_size=12),
    patterns=st.lists(st.tuples(PATTERNS, PATTERNS), min_size=1, max_size=4),
)
def test_patterns_stand_for_the_same_files_as_in_nimo_advise(folder, files, patterns):
    shutil.rmtree(folder / "random", ignore_errors=True)
    for (below, name), size in files.items():
        (folder / "random" / below).mkdir(parents=True, exist_ok=True)
        (folder / "random" / below / name).write_bytes(b"x" * size)
    words = ["in.bam", *(f"random/{below}/{name}" for below, name in patterns)]
    paths = input_words(words, "", work_dir=str(folder), variables={})
    sizes = sizes_of((one.kind, one.files, one.bytes) for one in see(paths).files)
    assert inputs_of(folder, *words) == to_text(sizes)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(odd=odd_files.ODD_FILES)
def test_whatever_names_stand_for_is_as_in_nimo_advise(folder, odd):
    shutil.rmtree(folder / "odd", ignore_errors=True)
    (folder / "odd").mkdir()
    for name, kind in odd.items():
        odd_files.make(folder / "odd" / name, kind)
    words = ["in.bam", *(f"odd/{name}" for name in odd), "odd", "odd/*"]
    paths = input_words(words, "", work_dir=str(folder), variables={})
    sizes = sizes_of((one.kind, one.files, one.bytes) for one in see(paths).files)
    assert inputs_of(folder, *words) == to_text(sizes)


@pytest.mark.parametrize(
    "off",
    [
        {"environment": {"NIMO_INPUTS": "off"}},
        {"environment": {"SLURM_JOB_ID": "7"}},
        {"comment": "mine nimo:app=x,inputs=off"},
        {"type": "salloc"},
    ],
    ids=["variable", "within a job", "tag", "salloc"],
)
def test_it_can_be_switched_off(folder, off):
    comment, _ = filtered(folder, "in.bam", **off)
    assert comment == off.get("comment")


def test_the_site_can_switch_it_off(folder):
    (folder / "off").touch()
    assert filtered(folder, "in.bam")[0] is None


def test_nobody_waits_for_a_file_system_that_hangs(folder):
    (folder / "mount").mkdir()
    write_settings(folder, 100)
    with hanging_mount(folder / "mount"):
        comment, _ = filtered(folder, "mount/in.bam")
        assert comment is None
        # For a while nothing is looked at.
        assert (folder / "nimo-inputs-pause").exists()
        assert filtered(folder, "in.bam")[0] is None
        (folder / "nimo-inputs-pause").write_text(str(int(time.time()) - 1))
    write_settings(folder, LONG_MS)
    assert inputs_of(folder, "in.bam") == "1Kbam=1000"


def test_a_pipe_that_somebody_reads_to_its_end_is_not_held_open(folder):
    (folder / "mount").mkdir()
    write_settings(folder, 100)
    with hanging_mount(folder / "mount"):
        # `subprocess.run` reads the hook's output to its end, as $(sbatch ...) does.
        begun_s = time.monotonic()
        filtered(folder, "mount/in.bam")
        assert time.monotonic() - begun_s < LONGEST_WAIT_S / 2
