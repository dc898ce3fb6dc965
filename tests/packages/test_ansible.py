"""The Ansible collection, run in a copy of this machine's system."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import scratch_directory
from tests.packages.system import NoSystemError, System, system_copy

ROLE = Path(__file__).parents[2] / "packages" / "ansible" / "roles" / "nimo"
_SCRIPTS = Path(sys.executable).parent
ANSIBLE = shutil.which("ansible-playbook", path=f"{_SCRIPTS}:/usr/local/bin:/usr/bin")
PLAY = [
    {
        "hosts": "localhost",
        "connection": "local",
        "roles": [{"role": str(ROLE)}],
        "vars": {
            "nimo_install": "existing",
            "nimo_command": str(_SCRIPTS / "nimo"),
            "nimo_settings": {"mode": "advise", "ingest": {"first_days": 1}},
            "nimo_hook_settings": {"forward_deadline": True, "timeout_ms": 30},
            "nimo_doctor": "off",  # there is no Slurm in the copy
        },
    }
]


def play(system: System) -> dict[str, int]:
    """Run the role; give Ansible's counts of tasks."""
    done = system.run(str(ANSIBLE), "-i", "localhost,", "/play.yml")
    recap = done.stdout.rpartition("PLAY RECAP")[2]
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", recap)}


@pytest.mark.skipif(ANSIBLE is None, reason="ansible-core is not installed: pip install .[sites]")
def test_a_second_run_changes_nothing() -> None:
    with scratch_directory("nimo-ansible-") as folder:
        try:
            with system_copy(folder) as system:
                made = f"mkdir -p /etc/slurm; rm -f /etc/slurm/*; echo '{json.dumps(PLAY)}' "
                system.run("sh", "-c", f"{made} >/play.yml")
                first = play(system)
                assert (first["failed"], first["changed"] > 3) == (0, True)
                stat = system.run("stat", "-c", "%U %a", "/var/lib/nimo", "/etc/nimo/nimo.yaml")
                assert stat.stdout == "nimo 750\nroot 644\n"
                hooks = system.run("cat", "/etc/slurm/nimo_hook.conf").stdout
                assert "forward_deadline = yes\ntimeout_ms = 30\n" in hooks
                assert system.exists("/etc/slurm/job_submit.lua")
                second = play(system)
                assert (second["failed"], second["changed"]) == (0, 0)
        except NoSystemError as error:
            pytest.skip(str(error))
