"""The Debian package, in a copy of this machine's system.

Its environment borrows what the tests have installed, unless NIMO_DEB names a whole package
(`make test-deb`).
"""

import gzip
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from packages import stage
from packages.deb.build import build
from packages.manual import page_of
from slurm_plugin.cli.nimo import COMMANDS, EXPERIMENTS
from tests.conftest import scratch_directory
from tests.docs.pages import blocks
from tests.environments import fill
from tests.packages.system import NoSystemError, system_copy
from tests.processes import wait_until

_DEMO = "/var/lib/nimo/demo"
WHOLE = os.environ.get("NIMO_DEB", "")
pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="not a Debian system")


@pytest.fixture(scope="module")
def folder():
    with scratch_directory("nimo-deb-") as made:
        yield made


@pytest.fixture(scope="module")
def deb(wheel, folder):
    if WHOLE:
        return Path(shutil.copy(WHOLE, folder))
    return build(
        folder,
        python=Path(sys._base_executable),
        fill=lambda python: fill(python, wheel, ["packages"]),
        compression=("-Znone",),
    )


@pytest.fixture(scope="module")
def newer(deb, folder):
    """Give the same package as of the next release, with another nimo.yaml."""
    root = folder / "newer"
    subprocess.run(["dpkg-deb", "--raw-extract", deb, root], check=True)
    control = root / "DEBIAN" / "control"
    control.write_text(control.read_text().replace("Version: 0", "Version: 9", 1))
    with (root / "etc/nimo/nimo.yaml").open("a") as settings:
        settings.write("# a new setting\n")
    made = folder / "newer.deb"
    build_it = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", root, made]
    subprocess.run(build_it, check=True, capture_output=True)
    return made


@contextmanager
def copied_system(folder):
    """Copy the system for as long as the context lasts; skips the test where that cannot be."""
    try:
        with system_copy(folder) as made:
            yield made
    except NoSystemError as error:
        pytest.skip(str(error))


@pytest.fixture
def system(tmp_path):
    with copied_system(tmp_path) as made:
        yield made


def files(deb):
    """Path -> permissions and owner."""
    reported = subprocess.run(["dpkg-deb", "-c", deb], check=True, capture_output=True, text=True)
    rows = (line.split(maxsplit=5) for line in reported.stdout.splitlines())
    return {row[5].partition(" -> ")[0].removeprefix("."): f"{row[0]} {row[1]}" for row in rows}


def test_it_holds_all_that_a_site_needs(deb):
    held = files(deb)
    units = {
        f"/usr/lib/systemd/system/{path.name}" for path in (stage.PROJECT / "etc/systemd").iterdir()
    }
    names = (*COMMANDS, *EXPERIMENTS, "advise", "lab")
    pages = {f"/usr/share/man/man1/{page_of(name)}.1.gz" for name in names}
    assert units | pages <= held.keys()
    assert {"/usr/bin/nimo", "/usr/bin/nimo-advise", "/etc/nimo/nimo.yaml"} <= held.keys()
    assert "/usr/share/bash-completion/completions/nimo-advise" in held
    assert any(path.endswith("slurm_plugin/lua/job_submit.lua") for path in held)
    assert any(path.endswith("store/migrations/versions/0013_first_schema.py") for path in held)
    assert {mode.split()[1] for mode in held.values()} == {"root/root"}
    writable = [path for path, mode in held.items() if mode[0] != "l" and "w" in mode[5:10]]
    assert writable == []


def test_nothing_in_it_names_where_it_was_built(deb, folder):
    root = folder / "raw"
    subprocess.run(["dpkg-deb", "--raw-extract", deb, root], check=True)
    environment = root / stage.HOME.relative_to("/")
    texts = [*(environment / "bin").glob("nimo*"), environment / "pyvenv.cfg"]
    assert [path.name for path in texts if str(folder) in path.read_text()] == []
    assert sorted(path.name for path in environment.glob("bin/*") if not path.is_symlink()) == [
        *("nimo", "nimo-advise")
    ]
    units = (root / "usr/lib/systemd/system").iterdir()
    assert [unit.name for unit in units if "/usr/local" in unit.read_text()] == []


@pytest.mark.skipif(shutil.which("lintian") is None, reason="lintian is not installed")
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not WHOLE, reason="make test-deb looks at the whole package")
def test_lintian_finds_no_error(deb):
    done = subprocess.run(["lintian", deb], capture_output=True, text=True, check=False)
    wrong = [line for line in done.stdout.splitlines() if line.startswith("E: ")]
    assert [line for line in wrong if "bogus-mail-host" not in line] == []  # see DEBEMAIL


def test_install_use_upgrade_remove_purge(deb, newer, system):
    reported = install(system, deb)
    assert "nimo init writes the configuration" in reported
    assert system.run("nimo", "-V").stdout.startswith("nimo 0")
    assert system.run("nimo-advise", "--usage").stdout.startswith("usage: nimo-advise")
    assert system.run("stat", "-c", "%U:%G %a", "/var/lib/nimo").stdout == "nimo:nimo 750\n"
    assert not system.exists("/etc/systemd/system/multi-user.target.wants/nimod.service")

    system.run("nimo", "init", "-i", "-M", "pine")
    system.run("touch", "/var/lib/nimo/nimo.db")
    reported = install(system, newer)
    assert "nimo hook-path --install" in reported
    settings = system.run("cat", "/etc/nimo/nimo.yaml").stdout
    assert 'cluster: "pine"' in settings  # what the admin had stays
    assert "a new setting" in system.run("cat", "/etc/nimo/nimo.yaml.dpkg-dist").stdout

    system.run("dpkg", "--remove", "nimo-slurm")
    assert not system.exists("/usr/bin/nimo")
    assert not system.exists(str(stage.HOME))
    assert system.exists("/etc/nimo/nimo.yaml")
    assert system.exists("/var/lib/nimo/nimo.db")

    system.run("dpkg", "--purge", "nimo-slurm")
    assert not system.exists("/etc/nimo")
    assert not system.exists("/var/lib/nimo")


def test_a_user_nimo_of_the_site_is_taken(deb, system):
    """As from a directory service, with an id that is not a system user's."""
    system.run("userdel", "nimo", check=False)
    system.run("useradd", "--uid", "7734", "--create-home", "nimo")
    install(system, deb)
    assert system.run("id", "-u", "nimo").stdout == "7734\n"
    assert system.run("stat", "-c", "%U:%G %a", "/var/lib/nimo").stdout == "nimo:nimo 750\n"


@pytest.mark.skipif(not WHOLE, reason="make test-deb tries the whole package")
def test_the_demo_runs_as_installed(deb, system):
    install(system, deb)
    demo = ("runuser", "-u", "nimo", "--", "nimo", "demo", "--directory", _DEMO)
    done = system.run(*demo)
    assert "$ nimo report" in done.stdout
    assert "is stopped" in system.run(*demo, "--stop").stdout


def install(system, deb):
    """Install; changed conffiles stay, as the default answer to dpkg's question has it."""
    options = ("--force-confdef", "--force-confold", "--force-depends", "--force-unsafe-io")
    return system.run("dpkg", *options, "--no-triggers", "--install", deb).stdout


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm"])
def test_maintainer_scripts_are_sound(script):
    path = stage.PROJECT / "packages" / "deb" / script
    subprocess.run(["sh", "-n", path], check=True)
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize("script", ["deb/prerm", "rpm/nimo-slurm.spec"])
def test_every_unit_that_can_be_enabled_is_stopped_on_removal(script):
    text = (stage.PROJECT / "packages" / script).read_text()
    units = (stage.PROJECT / "etc" / "systemd").iterdir()
    enabled = {unit.name for unit in units if "[Install]" in unit.read_text()}
    assert {unit for unit in enabled if unit not in text} == set()


def test_changelog_and_licence_go_with_it(deb, folder):
    root = folder / "documents"
    subprocess.run(["dpkg-deb", "--extract", deb, root], check=True)
    documents = root / "usr/share/doc/nimo-slurm"
    assert "Permission is hereby granted" in (documents / "copyright").read_text()
    assert b"# Changelog" in gzip.decompress((documents / "changelog.gz").read_bytes())


#: What the package's user does once: a history for ada, nimod with a made-up Slurm beside it.
_SITE = """\
import sys, time
from pathlib import Path
from random import Random
from slurm_plugin.demo.sandbox import DemoSite, prepare
folder = Path("/var/lib/nimo/demo")
prepare(DemoSite(folder, folder / "unused.sock"), user="ada", now_s=time.time(), rng=Random(1))
"""


@pytest.fixture(scope="module")
def site(deb, tmp_path_factory):
    """Give a site as the package makes it: store and configuration are nimo's alone."""
    with copied_system(tmp_path_factory.mktemp("site")) as system:
        install(system, deb)
        with serving(system):
            yield system


@contextmanager
def serving(system):
    """Make a store and settings of nimo's; nimod serves them for as long as the context lasts."""
    system.run("useradd", "--create-home", "ada")
    python = stage.HOME / "bin" / "python3"
    if not WHOLE:  # the interpreter that the tests borrow may be in somebody's home
        for folder in Path(sys._base_executable).resolve().parents:
            system.run("chmod", "o+rx", folder)
    as_nimo = ("runuser", "-u", "nimo", "--")
    system.run(*as_nimo, python, "-I", "-c", _SITE)
    system.run("chown", "root:nimo", "/etc/nimo/nimo.yaml")
    system.run("chmod", "0640", "/etc/nimo/nimo.yaml")
    system.run(*as_nimo, "sh", "-c", "nimo ingest /var/lib/nimo/demo/*sacct*")
    system.run(*as_nimo, "nimo", "fit", "--workers", "1")
    system.run("install", "-d", "-o", "nimo", "/run/nimo")
    serve = "PATH=/var/lib/nimo/demo/bin:$PATH nimo serve >/dev/null 2>&1 & echo $!"
    pid = system.run(*as_nimo, "sh", "-c", serve).stdout.strip()
    try:
        wait_until(
            lambda: " s ago" in system.run("nimo", "status", check=False).stdout, what="nimod"
        )
        system.run("cp", "-r", "/var/lib/nimo/demo", "/home/ada/demo")
        system.run("rm", "-rf", "/home/ada/demo/bin", "/home/ada/demo/nimo.yaml")
        system.run("chown", "-R", "ada", "/home/ada/demo")
        yield
    finally:
        system.run("kill", pid)


def test_a_user_follows_the_tutorial_without_reading_store_or_settings(site):
    as_ada = ("runuser", "-u", "ada", "--", "sh", "-c")
    for hidden in ("/etc/nimo/nimo.yaml", "/var/lib/nimo/nimo.db"):
        assert site.run(*as_ada, f"cat {hidden}", check=False).returncode != 0
    lines = [
        line.removeprefix("$ ")
        for shown in blocks("console")
        if shown.page == "tutorial-user.md"
        for line in shown.text.splitlines()
        if line.startswith(("$ nimo-advise", "$ nimo predict")) and "heat" not in line
    ]  # those that need no Slurm: the tests of the demo type all
    assert any(line.startswith("nimo predict") for line in lines)
    for line in lines:
        done = site.run(*as_ada, f"cd ~/demo && {line}", check=False)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        assert done.stderr == "", line
    assert "wrf-d02" in site.run(*as_ada, "nimo predict").stdout
    assert "<svg" in site.run("cat", "/home/ada/demo/curve.svg").stdout


def test_without_nimod_a_user_reads_what_is_wrong_and_ones_own_jobs_do(site):
    site.run("sh", "-c", "mv /run/nimo/nimod.sock /run/nimo/away")
    done = site.run("runuser", "-u", "ada", "--", "nimo", "predict", check=False)
    site.run("sh", "-c", "mv /run/nimo/away /run/nimo/nimod.sock")
    assert "nimod at /run/nimo/nimod.sock" in done.stderr
    assert "from your own jobs instead" in done.stderr
