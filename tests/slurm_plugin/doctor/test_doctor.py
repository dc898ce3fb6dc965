"""`nimo doctor` on a real cluster: all well, and one fault after the other."""

import json
import os
import re
import sqlite3
import time
from argparse import Namespace
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from predictor.refit import refit
from sacct_ingest.records import Fault, OddValue
from sacct_ingest.store import Store
from sacct_ingest.store.ingests import REFITTED
from slurm_plugin.cli.commands.doctor import installation_of
from slurm_plugin.doctor import CHECKS, FindingState, examine
from slurm_plugin.doctor.nimo_checks import learned, values
from slurm_plugin.nimod import client
from slurm_plugin.text.table_columns import WIDTH
from tests.cluster.nimod import MOST_MS, Nimod, hooks_for
from tests.conftest import scratch_directory
from tests.predictor.rows import applications, outdate
from tests.processes import wait_until

SETTINGS = {"snapshot": {"interval_s": 1.0}, "ingest": {"first_days": 1}}


@pytest.fixture(scope="module")
def site(slurm_cluster):
    """A cluster with NIMO and one run in its history; what the doctor finds is all well."""
    with (
        scratch_directory("nimo-doctor-") as directory,
        slurm_cluster(nodes=2, lua=hooks_for(directory, timeout_ms=MOST_MS)) as cluster,
    ):
        nimod = Nimod(directory, cluster, SETTINGS)
        jobs = [cluster.sbatch("-N1", script="#!/bin/sh\nsleep 2\n") for _ in range(4)]
        cluster.wait(*jobs, accounted=True)
        nimod.run("ingest")
        nimod.run("fit")
        nimod.start()
        wait_until(lambda: sees(nimod), what="nimod to see the cluster")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in cluster.env.items():
                patch.setenv(name, value)
            yield nimod


def status_of(nimod):
    return client.status(nimod.socket, timeout_s=60)


def sees(nimod):
    return status_of(nimod).snapshot_age_s is not None


def diagnosis(nimod, *, later_s=0.0):
    installation = installation_of(Namespace(config=nimod.config, store=""))
    return list(examine(replace(installation, now_s=installation.now_s + later_s)))


def troubles(nimod, *, later_s=0.0):
    return [
        f
        for f in diagnosis(nimod, later_s=later_s)
        if f.state in (FindingState.WARNING, FindingState.ERROR)
        and f.check != "security"  # of the release that the tests run with
    ]


def etc(nimod, name):
    return nimod.cluster.layout.etc / name


@contextmanager
def written(path, change):
    """Change a file for a while; its time stamps are put back with it."""
    before, times = path.read_text(), path.stat()
    path.write_text(change(before))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    try:
        yield
    finally:
        path.write_text(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@contextmanager
def mode(path, bits):
    before = path.stat().st_mode
    path.chmod(bits)
    yield
    path.chmod(before)


@contextmanager
def moved(path):
    path.rename(f"{path}.away")
    yield
    Path(f"{path}.away").rename(path)


@contextmanager
def present(path):
    path.touch()
    yield
    path.unlink()


@contextmanager
def reloaded(nimod, fault):
    """Make a fault well after slurmctld loaded the hooks; it loads them again afterwards."""
    hook = etc(nimod, "job_submit.lua")
    # From 23.11 on a reconfiguration starts slurmctld anew.
    shown = nimod.cluster.run("scontrol", "show", "config", env={"SLURM_TIME_FORMAT": "%s"}).stdout
    booted_s = re.search(r"^BOOT_TIME\s*= (\d+)", shown, re.MULTILINE)
    assert booted_s, shown
    loaded_s = max(hook.stat().st_mtime, int(booted_s[1]))
    wait_until(lambda: time.time() > loaded_s + 1.5, what="a later second")
    with fault:
        yield
    hook.touch()


@contextmanager
def stopped(nimod, daemon):
    nimod.cluster.stop(daemon)
    yield
    nimod.cluster.start(daemon)


@contextmanager
def without_nimod(nimod):
    nimod.stop()
    yield
    nimod.start()
    wait_until(lambda: sees(nimod), what="nimod to see the cluster")


@contextmanager
def without_store(nimod):
    """Take the store away until nimod misses it, which it forgets when it starts anew."""
    with moved(Path(nimod.store.removeprefix("sqlite:///"))):
        wait_until(lambda: status_of(nimod).store_trouble != "", what="nimod to miss its store")
        yield
    with without_nimod(nimod):
        pass


@contextmanager
def slurm_conf(nimod, change):
    """Restarted, not told to read it again: 25.11 ends where other plugins are to gather data."""
    with written(etc(nimod, "slurm.conf"), change):
        nimod.cluster.restart("slurmctld")
        yield
    nimod.cluster.restart("slurmctld")


@contextmanager
def store_of(nimod, revision):
    """Let the store be of another release."""
    path = nimod.store.removeprefix("sqlite:///")

    def write(number):
        with sqlite3.connect(path) as database:
            before = str(database.execute("SELECT version_num FROM alembic_version").fetchone()[0])
            database.execute("UPDATE alembic_version SET version_num = ?", (number,))
        return before

    before = write(revision)
    yield
    write(before)


def bare(text):
    """slurm.conf as it is before anything was done for NIMO."""
    text = re.sub(r"(?m)^(JobSubmitPlugins|CliFilterPlugins|AccountingStoreFlags)=.*\n", "", text)
    return re.sub(r"JobAcctGatherType=.*", "JobAcctGatherType=jobacct_gather/none", text)


SITES_OWN = """
function slurm_job_submit() return slurm.SUCCESS end
function slurm_job_modify() return slurm.SUCCESS end
return slurm.SUCCESS
"""


@contextmanager
def damaged(nimod):
    """Overwrite pages in the middle of the store's file for a while."""
    path = Path(nimod.store.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    middle = len(before) // 8192 * 4096
    path.write_bytes(before[:middle] + b"x" * 20_000 + before[middle + 20_000 :])
    try:
        yield
    finally:
        path.write_bytes(before)


@contextmanager
def frozen(nimod):
    """Keep nimod from answering for a while."""
    nimod.freeze()
    try:
        yield
    finally:
        nimod.thaw()


#: Fault, how it is made, and for each check that has to name it: state, words told, words of mend.
FAULTS = {
    "misspelt setting": (
        lambda n: written(n.config, lambda text: text + "polcy: {}\n"),
        {"configuration": (FindingState.ERROR, "did you mean 'policy'?", "nimo config --check")},
    ),
    "configuration for all to write": (
        lambda n: mode(n.config, 0o666),
        {"configuration": (FindingState.ERROR, "every user can write", "chmod o-w")},
    ),
    "kill switch": (
        lambda n: present(n.kill_switch),
        {"hook settings": (FindingState.WARNING, "all jobs pass without NIMO", "rm ")},
    ),
    "kill switch for all to make": (
        lambda n: mode(n.kill_switch.parent, 0o777),
        {"hook settings": (FindingState.ERROR, "every user can create", "chmod o-w")},
    ),
    "another socket": (
        lambda n: written(n.config, lambda text: text.replace("nimod.sock", "other.sock")),
        {
            "hook settings": (FindingState.ERROR, "nimod listens on", "socket = "),
            "nimod": (FindingState.ERROR, "No such file", "systemctl start nimod"),
        },
    ),
    "hook missing": (
        lambda n: reloaded(n, moved(etc(n, "nimo_json.lua"))),
        {"hook files": (FindingState.ERROR, "nimo_json.lua", "nimo hook-path")},
    ),
    "hook of the site's own, ours beside it missing": (
        lambda n: reloaded(n, written(etc(n, "job_submit.lua"), lambda text: SITES_OWN)),
        {
            "hook files": (FindingState.ERROR, "nimo_job_submit.lua", "nimo hook-path --install"),
            "hooks loaded": (FindingState.WARNING, "not loaded the new job_submit.lua", "touch "),
        },
    ),
    "hook broken, and not loaded": (
        lambda n: reloaded(n, written(etc(n, "nimo_submit.lua"), lambda text: text + "\nif then")),
        {
            "hook files": (FindingState.WARNING, "nimo_submit.lua", "nimo hook-path"),
            "hook syntax": (FindingState.ERROR, "nimo_submit.lua", "before slurmctld is started"),
            "hooks loaded": (FindingState.WARNING, "not loaded the new nimo_submit.lua", "touch "),
        },
    ),
    "slurm.conf without NIMO": (
        lambda n: slurm_conf(n, bare),
        {
            "job_submit": (FindingState.ERROR, "does not run NIMO's hook", "JobSubmitPlugins=lua"),
            "cli_filter": (FindingState.WARNING, "--deadline", "CliFilterPlugins=lua"),
            "measurements": (FindingState.WARNING, "does not measure", "JobAcctGatherType="),
            "comments": (FindingState.WARNING, "tags", "AccountingStoreFlags=job_comment"),
        },
    ),
    "comments that nobody mends": (
        lambda n: slurm_conf(n, lambda text: re.sub(r"(?m)^JobSubmitPlugins=.*\n", "", text)),
        {
            "job_submit": (FindingState.ERROR, "does not run NIMO's hook", "JobSubmitPlugins=lua"),
            "forwarding": (
                FindingState.ERROR,
                "writes deadlines into users' comments",
                "forward_deadline = no",
            ),
        },
    ),
    "deadlines not forwarded": (
        lambda n: reloaded(
            n, written(etc(n, "nimo_hook.conf"), lambda text: text.replace("= yes", "= no"))
        ),
        {
            "forwarding": (
                FindingState.WARNING,
                "cannot read --deadline",
                "forward_deadline = yes",
            ),
            "hooks loaded": (FindingState.WARNING, "not loaded the new nimo_hook.conf", "touch "),
        },
    ),
    "misspelt setting of the hooks": (
        lambda n: reloaded(
            n, written(etc(n, "nimo_hook.conf"), lambda text: text + "timeout-ms = 50\n")
        ),
        {
            "hook settings": (FindingState.WARNING, "'timeout-ms'", "did you mean 'timeout_ms'?"),
            "hooks loaded": (FindingState.WARNING, "not loaded the new nimo_hook.conf", "touch "),
        },
    ),
    "damaged store": (
        damaged,
        {"store": (FindingState.ERROR, "is damaged", "sudo -u nimo nimo ingest")},
    ),
    "hung nimod": (
        frozen,
        {"nimod": (FindingState.ERROR, "does not answer", "systemctl restart nimod")},
    ),
    "store for all to read": (
        lambda n: mode(Path(n.store.removeprefix("sqlite:///")), 0o644),
        {"store": (FindingState.WARNING, "every user can read", "chmod o-r")},
    ),
    "no store": (
        without_store,
        {
            "store": (FindingState.ERROR, "no store at", "nimo ingest"),
            "nimod": (FindingState.ERROR, "nimod has no store", "put the store back"),
        },
    ),
    "store of an older release": (
        lambda n: store_of(n, "0001"),
        {"store": (FindingState.WARNING, "0001", "nimo ingest")},
    ),
    "store of a newer release": (
        lambda n: store_of(n, "9999"),
        {"store": (FindingState.ERROR, "newer release", "upgrade NIMO")},
    ),
    "no nimod": (
        without_nimod,
        {"nimod": (FindingState.ERROR, "No such file", "systemctl start nimod")},
    ),
    "socket out of reach": (
        lambda n: mode(n.socket, 0o600),
        {"socket": (FindingState.ERROR, "some users cannot", "restart nimod")},
    ),
    "no slurmdbd": (
        lambda n: stopped(n, "slurmdbd"),
        {"slurmdbd": (FindingState.ERROR, "slurmdbd does not answer", "start slurmdbd")},
    ),
    "no munged": (
        lambda n: stopped(n, "munged"),
        {
            "munge": (FindingState.ERROR, "munge", "systemctl start munge"),
            "slurmctld": (FindingState.ERROR, "scontrol", "start munge and slurmctld"),
            "slurmdbd": (FindingState.ERROR, "slurmdbd does not answer", "start slurmdbd"),
        },
    ),
}


def test_files_are_put_right_before_the_plugins_that_read_them():
    names = [check.name for check in CHECKS]
    files = max(names.index(name) for name in ("hook files", "hook syntax", "Lua modules"))
    assert files < min(names.index("job_submit"), names.index("cli_filter"))


def test_all_is_well_and_every_check_was_made(site):
    result = diagnosis(site)
    assert troubles(site) == []
    assert {finding.check for finding in result} == {check.name for check in CHECKS}
    skipped = {finding.check for finding in result if finding.state == FindingState.SKIPPED}
    assert skipped <= {"munge", "job_submit"}  # auth/slurm; Slurm in a root directory


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_with_its_fix_and_nothing_else_is(site, fault):
    make, expected = FAULTS[fault]
    if "munge" in expected and site.cluster.settings.auth != "munge":
        pytest.skip("no munge here")
    with make(site):
        result = {finding.check: finding for finding in troubles(site)}
    assert set(result) == set(expected)
    for check, (state, reported, fix) in expected.items():
        assert result[check].state == state
        assert reported in result[check].message
        assert fix in result[check].fix


def test_slurmdbd_that_forgets_too_soon(site):
    path = etc(site, "slurmdbd.conf")
    with written(path, lambda text: text + "PurgeJobAfter=12hours\n"):
        site.cluster.restart("slurmdbd")
        (result,) = troubles(site)
    site.cluster.restart("slurmdbd")
    assert (result.check, result.state) == ("retention", FindingState.WARNING)
    assert "after 0.5 days" in result.message
    assert "PurgeJobAfter=1days" in result.fix


def test_clocks_and_old_knowledge(site):
    result = {finding.check: finding for finding in troubles(site, later_s=3 * 86400)}
    assert set(result) == {"clock", "ingest and fit"}
    assert "ahead of" in result["clock"].message
    assert "fitted " in result["ingest and fit"].message


def test_for_people_and_for_scripts(site):
    site.kill_switch.touch()
    text = site.run("doctor").stdout
    fields = site.run("doctor", "-P").stdout.splitlines()
    site.kill_switch.unlink()
    with written(site.config, lambda text: text + "polcy: {}\n"):
        done = site.run("doctor", "--json", check=False)
    assert re.search(
        r"^warning  hook settings +\S+nimo\.off\s+exists:(.*\n)+? +fix: rm ", text, re.M
    )
    assert "\033" not in text
    assert all(len(line) <= WIDTH or " " not in line[24:] for line in text.splitlines())
    assert f"hook settings|warning|{site.kill_switch} exists: all jobs pass without NIMO|rm " in (
        "\n".join(fields)
    )
    assert all(line.count("|") == 3 for line in fields)
    assert done.returncode == 1
    assert json.loads(done.stdout)[0]["state"] == "error"


def test_init_writes_down_what_this_slurm_says(site, tmp_path):
    made = tmp_path / "nimo.yaml"
    with slurm_conf(site, bare), moved(etc(site, "nimo_hook.conf")):
        reported = json.loads(site.run("init", "--json", "--config", made).stdout)
    etc(site, "job_submit.lua").touch()
    assert site.run("config", "--check", made).returncode == 0
    assert f'cluster: "{reported["slurm"]["cluster"]}"\n' in made.read_text()
    assert reported["slurm"]["partitions"] == "batch small"
    assert {line.split("=")[0] for line in reported["slurm_conf"]} == {
        *("JobSubmitPlugins", "CliFilterPlugins", "AccountingStoreFlags", "JobAcctGatherType")
    }
    assert "nimo doctor" in reported["next"]


def test_a_fresh_mark_of_something_else_is_no_ingest(tmp_path):
    url, now_s = f"sqlite:///{tmp_path}/nimo.db", int(time.time())
    with Store.open(url) as store:
        store.watermarks.set("sacct:pine", now_s - 10 * 86_400)
        for name in ("sacct:pine again", "sacct:pine since 1", "standings"):
            store.watermarks.set(name, now_s)
    ingest, fit = learned(installation_of(Namespace(config=None, store=url)))
    assert ingest.state is fit.state is FindingState.WARNING
    assert ingest.message.startswith("accounting read ")
    assert "nimo fit has not run yet" in fit.message


def test_tables_of_another_release_are_counted_and_nimo_fit_is_named(tmp_path):
    url = f"sqlite:///{tmp_path}/nimo.db"
    with Store.open(url) as store:
        store.runs.add(applications(1))
        refit(store, now_s=time.time())
        number = store.fits.count()
        outdate(store)
    found = list(learned(installation_of(Namespace(config=None, store=url))))
    (waiting,) = [one for one in found if "another release made" in one.message]
    assert waiting.state is FindingState.WARNING
    assert f"made {number} predictions" in waiting.message
    assert waiting.fix.endswith("nimo fit")
    with Store.open(url) as store:
        refit(store, now_s=time.time())
    found = learned(installation_of(Namespace(config=None, store=url)))
    assert not any("another release made" in one.message for one in found)


def test_saved_files_alone_are_no_news(tmp_path):
    url = f"sqlite:///{tmp_path}/nimo.db"
    with Store.open(url) as store:
        store.watermarks.set(REFITTED, int(time.time()))
    files, fit = learned(installation_of(Namespace(config=None, store=url)))
    assert (files.state, fit.state) == (FindingState.WARNING, FindingState.OK)
    assert files.message.startswith("only saved files were read")


def test_columns_that_overflow_are_named(tmp_path):
    url = f"sqlite:///{tmp_path}/nimo.db"
    with Store.open(url) as store:
        store.value_counts.add(
            {"job": 10, "step": 100},
            {
                OddValue("step", "TotalCPU", Fault.OVERFLOWED): 3,
                OddValue("job", "MaxRSS", Fault.UNREADABLE): 0,
            },
        )
    (finding,) = values(installation_of(Namespace(config=None, store=url)))
    assert finding.state is FindingState.WARNING
    assert finding.message == "TotalCPU overflowed in 3 % of steps: NIMO does not use these"
