"""The throw-away Slurm itself: its release, and that it ends with all that it started."""

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster import releases
from tests.conftest import scratch_directory
from tests.guardian import start_time
from tests.processes import wait_until

ROOT = Path(__file__).parents[2]


def test_the_cluster_is_of_the_release_asked_for(slurm, request):
    release, _, auth = request.config.getoption("--slurm").partition("/")
    release = release or releases.native()
    assert slurm.run("sinfo", "--version").stdout.split()[1].startswith(f"{release}.")
    shown = slurm.run("scontrol", "show", "config").stdout
    assert f"= auth/{auth or 'munge'}\n" in shown


def test_the_command_line_leaves_a_cluster_with_nimo_running(slurm_cluster):
    def command(*argv):
        program = [sys.executable, "-m", "tests.cluster", *argv, "--directory", str(directory)]
        done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    with scratch_directory("nimo-play-") as directory:
        try:
            assert f"export PATH={directory}/bin:$PATH" in command("up", "--with-nimo")
            assert "nimod      running" in command("status")
            assert "already up" in command("up")
            asked = [str(directory / "bin" / "nimo"), "status"]
            assert subprocess.run(asked, capture_output=True, check=False).returncode == 0
        finally:
            assert "down after" in command("down")
        # nimod that had to be killed leaves its second process to notice that.
        wait_until(lambda: not processes_of(directory), what="end of all processes")
        assert "cluster    down" in command("status")


def processes_of(directory):
    """List the living processes that belong to a cluster: by argument, environment or folder."""
    result = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            pid = int(entry.name)
            if str(directory) in arguments(pid) + environment(pid) and start_time(pid):
                result.append(pid)
    return result


def arguments(pid):
    return _read(pid, "cmdline").replace("\0", " ")


def environment(pid):
    return _read(pid, "environ")


def _read(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
