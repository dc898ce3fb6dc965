"""Files that others name, looked at in a process of its own."""

import os
import shutil
import socket
import time

import pytest
from hypothesis import HealthCheck, given, settings

from sacct_ingest.files.looked_at import MOST_OF_FOLDER, Named, kind_of, looked_at, see
from tests import odd_files
from tests.processes import LONGEST_WAIT_S

NOBODY = 65534


def sizes(seen):
    return [(one.path, one.kind, one.files, one.bytes) for one in seen.files]


def one_answer(paths, wait_s=LONGEST_WAIT_S):
    return next(looked_at([Named(lambda: paths)], first_s=wait_s, each_s=wait_s))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.bam").write_bytes(b"x" * 1000)
    (tmp_path / "reads").mkdir()
    for number in range(3):
        (tmp_path / f"reads/r{number}.fastq.gz").write_bytes(b"x" * 10)
    return tmp_path


def test_files_and_those_in_folders_are_seen(folder):
    seen = one_answer([f"{folder}/a.bam", f"{folder}/nowhere.bam", f"{folder}/reads"])
    assert sizes(seen) == [(0, "bam", 1, 1000), (2, "", 3, 30)]
    assert (seen.skipped, seen.missing) == (0, {1})


def test_what_is_no_plain_file_is_skipped_and_counted(folder):
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
    names = ["fifo", "loop", "socket", "a.bam\nb", "x" * 300]
    seen = one_answer([*(f"{folder}/{name}" for name in names), "/dev/zero", "a\0b"])
    assert seen.files == []
    # Of a name with a line's end there is no file.
    assert (seen.skipped, seen.missing) == (6, {3})


@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(odd=odd_files.ODD_FILES)
def test_whatever_a_name_stands_for_it_is_seen_skipped_or_missing(folder, odd):
    shutil.rmtree(folder / "odd", ignore_errors=True)
    (folder / "odd").mkdir()
    sizes = [odd_files.make(folder / "odd" / name, kind) for name, kind in odd.items()]
    paths = [f"{folder}/odd/{name}" for name in odd]
    seen = see(paths)
    places = {
        kind: [place for place, one in enumerate(odd.values()) if one == kind]
        for kind in odd_files.KINDS
    }
    plain = sorted(place for kind in odd_files.PLAIN for place in places[kind])
    assert [(one.path, one.bytes) for one in seen.files] == [(one, sizes[one]) for one in plain]
    assert seen.missing == {*places["nowhere"], *places["missing"]}
    special = ("fifo", "socket", "device", "loop")
    assert seen.skipped == sum(len(places[kind]) for kind in special)
    # As files of a folder: no name is left out, and nothing else is counted.
    own = [size for size, kind in zip(sizes, odd.values(), strict=True) if kind in odd_files.PLAIN]
    whole = see([f"{folder}/odd"]).files
    assert [(one.files, one.bytes) for one in whole] == [(len(own), sum(own))] * bool(own)


def test_files_that_vanish_meanwhile_are_missing(folder):
    def gone_at_once():
        names = [f"{folder}/reads/r{number}.fastq.gz" for number in range(3)]
        shutil.rmtree(folder / "reads")
        return [*names, f"{folder}/reads", f"{folder}/reads/*.gz", f"{folder}/a.bam"]

    seen = next(looked_at([Named(gone_at_once)], first_s=LONGEST_WAIT_S, each_s=LONGEST_WAIT_S))
    assert sizes(seen) == [(5, "bam", 1, 1000)]
    assert (seen.skipped, seen.missing) == (0, {0, 1, 2, 3, 4})


def test_what_may_not_be_read_is_skipped_and_counted(folder):
    (folder / "closed").mkdir()
    (folder / "closed/b.bam").touch()
    (folder / "a.bam").chmod(0)  # its size is no secret
    folder.chmod(0o755)
    (folder / "closed").chmod(0)

    def without_rights():
        os.chdir(folder)  # the folders above may be closed, too
        if os.geteuid() == 0:
            os.setresuid(NOBODY, NOBODY, NOBODY)
        return ["a.bam", "closed/b.bam", "closed", "closed/*.bam"]

    seen = next(looked_at([Named(without_rights)], first_s=LONGEST_WAIT_S, each_s=LONGEST_WAIT_S))
    (folder / "closed").chmod(0o700)
    assert sizes(seen) == [(0, "bam", 1, 1000)]
    # A pattern stands for nothing there, as in a shell.
    assert (seen.skipped, seen.missing) == (2, {3})


def test_special_files_in_a_folder_are_left_out(folder):
    os.mkfifo(folder / "reads/fifo")
    (folder / "reads/loop").symlink_to("loop")
    (folder / "reads/below").mkdir()
    assert sizes(one_answer([f"{folder}/reads"])) == [(0, "", 3, 30)]


def test_files_of_a_folder_count_apart_by_when_they_were_changed(folder):
    os.utime(folder / "reads/r0.fastq.gz", (0, 0))  # which changes its status now
    before_s = time.time() + 1000
    files = [f"{folder}/reads"]
    assert [one.files for one in see(files, before_s).files] == [3]
    assert [one.changed_s < 10**9 for one in see(files, 0).files] == [False]


def test_a_folder_of_too_many_files_is_skipped(folder):
    for number in range(MOST_OF_FOLDER):
        (folder / f"reads/{number}").touch()
    seen = one_answer([f"{folder}/reads"])
    assert (seen.files, seen.skipped) == ([], 1)


def test_a_pattern_stands_for_files_as_in_a_shell(folder):
    (folder / "reads/.hidden.fastq.gz").write_bytes(b"x")
    (folder / "reads/below.gz").mkdir()
    (folder / "more").mkdir()
    (folder / "more/r\xe9.fastq.gz").write_bytes(b"x" * 5)
    (folder / "more/line\nend.fastq.gz").write_bytes(b"x" * 5)
    patterns = ["reads/*.fastq.gz", "*/r?.fastq.gz", "reads/r0*", "*/*.bam", "no*/r0", "*.ba?"]
    seen = one_answer([f"{folder}/{pattern}" for pattern in patterns])
    gz, bam = "fastq.gz", ""
    assert sizes(seen) == [(0, gz, 3, 30), (1, gz, 4, 35), (2, "", 1, 10), (5, bam, 1, 1000)]
    assert (seen.skipped, seen.missing) == (0, {3, 4})


def test_a_pattern_whose_folders_hold_too_many_names_is_skipped(folder):
    for number in range(MOST_OF_FOLDER - 3):
        (folder / f"reads/{number}").touch()
    assert sizes(see([f"{folder}/reads/*.gz"])) == [(0, "gz", 3, 30)]
    seen = see([f"{folder}/r*/*.gz"])
    assert (seen.files, seen.skipped) == ([], 1)


def test_a_pattern_takes_time_in_proportion_to_the_names(folder):
    (folder / ("a" * 250)).touch()
    assert see([f"{folder}/{'a*' * 100}b"]).missing == {0}


def test_nobody_waits_for_a_file_system_that_hangs():
    reader, writer = os.pipe()

    def hangs():
        time.sleep(600)
        return ["/"]

    begun_s = time.monotonic()
    answers = list(
        looked_at([Named(list), Named(hangs), Named(hangs)], first_s=LONGEST_WAIT_S, each_s=0.2)
    )
    assert answers[0].files == []
    assert answers[1:] == [None]
    assert time.monotonic() - begun_s < LONGEST_WAIT_S / 2
    # Nor for its child: it holds no pipe of its parent's.
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_name_that_cannot_be_found_out_is_none():
    def fails():
        raise OSError

    assert (
        next(looked_at([Named(fails)], first_s=LONGEST_WAIT_S, each_s=LONGEST_WAIT_S)).files == []
    )


def test_kinds_of_names():
    names = ["a.b.Fastq.GZ", "/data.d/x.bam", "part.001", ".bashrc", "x", "a.gz", "a.é"]
    kinds = [kind_of(name) for name in names]
    assert kinds == ["fastq.gz", "bam", "", "", "", "gz", ""]


def test_here_and_now(folder):
    assert sizes(see([f"{folder}/a.bam"])) == [(0, "bam", 1, 1000)]
