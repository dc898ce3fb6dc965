"""The Ansible collection, run in a copy of this machine's system."""

import copy
import json
import os
import re
import shutil
import sys
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cluster.host import missing_programs
from tests.conftest import scratch_directory
from tests.packages.system import NoSystemError, system_copy

PROJECT = Path(__file__).parents[2]
ROLE = PROJECT / "packages" / "ansible" / "roles" / "nimo"
_SCRIPTS = Path(sys.executable).parent
ANSIBLE = shutil.which("ansible-playbook", path=f"{_SCRIPTS}:/usr/local/bin:/usr/bin")
PLAY = [
    {
        "hosts": "localhost",
        "connection": "local",
        "roles": [{"role": str(ROLE)}],
        "vars": {
            "nimo_settings": {"mode": "advise", "ingest": {"first_days": 1}},
            "nimo_hook_settings": {"forward_deadline": True, "timeout_ms": 30},
            "nimo_doctor": "off",
        },
    }
]


#: Each way to install -> its variables; None: `make test-release` has what it installs.
INSTALLS = {
    "existing": {"nimo_command": str(_SCRIPTS / "nimo")},
    "package": {"nimo_package": os.environ.get("NIMO_DEB")},
    "pip": {"nimo_pip": os.environ.get("NIMO_WHEEL")},
}
pytestmark = pytest.mark.skipif(
    ANSIBLE is None, reason="ansible-core is not installed: pip install .[sites]"
)
#: Slurm without systemd: what an admin does by hand where the role's services do it elsewhere.
CLUSTER = Path("/srv/cluster")
ON_CLUSTER = f"export SLURM_CONF={CLUSTER}/etc/slurm.conf"
BY_HAND = f"""
{ON_CLUSTER}
printf 'JobSubmitPlugins=lua\nCliFilterPlugins=lua\n' >>$SLURM_CONF
scontrol reconfigure
install -d -o nimo /run/nimo
sbatch --wait --wrap true
su -s /bin/sh nimo -c '
  cd {_SCRIPTS} && ./nimo ingest && ./nimo fit && exec ./nimo serve' >/tmp/nimod.out 2>&1 &
for _ in $(seq 300); do ! test -S /run/nimo/nimod.sock || exit 0; sleep 0.2; done
exit 1
"""


@contextmanager
def a_copy():
    """Give a system with an empty folder of Slurm's; skip where none can be made."""
    with scratch_directory("nimo-ansible-") as folder:
        try:
            with system_copy(folder) as system:
                system.run("sh", "-c", "rm -rf /etc/slurm; mkdir /etc/slurm")
                yield system
        except NoSystemError as error:
            pytest.skip(str(error))


def play(system, install="existing", **variables):
    """Run the role with more variables; give Ansible's counts of tasks."""
    book = copy.deepcopy(PLAY)
    given = INSTALLS[install]
    if install != "existing":
        (file,) = given.values()
        book[0]["vars"]["nimo_sha256"] = sha256(Path(file).read_bytes()).hexdigest()
    book[0]["vars"].update(given | variables, nimo_install=install)
    system.run("sh", "-c", f"echo '{json.dumps(book)}' >/play.yml")
    done = system.run(str(ANSIBLE), "-i", "localhost,", "/play.yml")
    recap = done.stdout.rpartition("PLAY RECAP")[2]
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", recap)}


@pytest.mark.parametrize("install", INSTALLS)
def test_a_second_run_changes_nothing(install):
    if None in INSTALLS[install].values():
        pytest.skip("no release to install: make test-release")
    with a_copy() as system:
        first = play(system, install)
        assert (first["failed"], first["changed"] > 3) == (0, True)
        stat = system.run("stat", "-c", "%U %a", "/var/lib/nimo", "/etc/nimo/nimo.yaml")
        assert stat.stdout == "nimo 750\nroot 644\n"
        hooks = system.run("cat", "/etc/slurm/nimo_hook.conf").stdout
        assert "forward_deadline = yes\ntimeout_ms = 30\n" in hooks
        assert system.exists("/etc/slurm/job_submit.lua")
        second = play(system, install)
        assert (second["failed"], second["changed"]) == (0, 0)


@pytest.mark.parametrize("install", ["package", "pip"])
@pytest.mark.parametrize(
    ("file", "checksum", "words"),
    [
        ("", "", "NIMO is on no public index|Set nimo_package"),
        ("/nimo_slurm-0.2.0-py3-none-any.whl", "", "NIMO is on no public index"),
        ("/nimo_slurm-0.2.0-py3-none-any.whl", "0" * 64, "is not the file whose SHA-256 is 0"),
    ],
)
def test_nothing_is_installed_but_a_file_with_its_checksum(install, file, checksum, words):
    with a_copy() as system:
        system.run("touch", "/nimo_slurm-0.2.0-py3-none-any.whl")
        book = copy.deepcopy(PLAY)
        given = {f"nimo_{install}": file, "nimo_sha256": checksum, "nimo_install": install}
        book[0]["vars"].update(given)
        system.run("sh", "-c", f"echo '{json.dumps(book)}' >/play.yml")
        done = system.run(str(ANSIBLE), "-i", "localhost,", "/play.yml", check=False)
        assert done.returncode != 0
        assert re.search(words, done.stdout)
        assert "changed=0" in done.stdout
        assert not system.exists("/opt/nimo")


@pytest.mark.skipif(bool(missing_programs(None)), reason="Slurm is not installed")
def test_the_doctor_passes_once_its_findings_are_put_right():
    cluster = f"cd {PROJECT} && {sys.executable} -m tests.cluster %s --directory {CLUSTER}"
    on_cluster = {"nimo_slurm_dir": str(CLUSTER / "etc"), "nimo_settings": {"mode": "observe"}}
    with a_copy() as system:
        # nimod's account has to reach this Python and this project.
        for place in (Path(sys.base_prefix), PROJECT):
            system.run("chmod", "o+x", *place.parents)
        try:
            system.run("sh", "-c", cluster % "up --nodes 2")
            assert play(system, **on_cluster, nimo_doctor="report")["failed"] == 0
            system.run("sh", "-c", BY_HAND)
            checked = play(system, **on_cluster, nimo_doctor="require")
            assert (checked["failed"], checked["changed"]) == (0, 0)
        finally:
            system.run("pkill", "-u", "nimo", check=False)
            system.run("sh", "-c", cluster % "down", check=False)
