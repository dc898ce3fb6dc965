"""Other releases of Slurm than the machine's own, in root directories."""

import os
from pathlib import Path

import pytest

from tests.cluster import releases
from tests.cluster.releases import ReleaseError
from tests.processes import ProcessError

FAILING = "#!/bin/sh\necho 'getting ready'\necho 'make-slurm-root: {why}' >&2\nexit {status}\n"


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    releases.cached_root.cache_clear()
    return tmp_path


def failing_script(folder: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> Path:
    script = folder / "make"
    script.write_text(FAILING.format(why="the mirror is down", status=status))
    script.chmod(0o755)
    monkeypatch.setattr(releases, "MAKE", script)
    return script


def foreign() -> str:
    return next(release for release in releases.SUITES if release != releases.native())


def test_the_installed_release_needs_no_root_directory(slurm_cluster):
    own = releases.native()
    assert own is None or own not in releases.SUITES or releases.root(own) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes root directories")
def test_what_keeps_one_from_being_made_is_the_reason(empty_cache, monkeypatch):
    failing_script(empty_cache, monkeypatch, releases.CANNOT)
    with pytest.raises(ReleaseError, match="make-slurm-root: the mirror is down"):
        releases.root(foreign())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes root directories")
def test_a_fault_of_the_script_is_no_reason_to_skip(empty_cache, monkeypatch):
    failing_script(empty_cache, monkeypatch, 1)
    with pytest.raises(ProcessError, match="status 1") as caught:
        releases.root(foreign())
    assert not isinstance(caught.value, ReleaseError)


def test_one_of_an_older_script_is_not_used(empty_cache, monkeypatch):
    made_by = releases.cache() / releases.SUITES[foreign()] / "etc" / "made-by-make-slurm-root"
    made_by.parent.mkdir(parents=True)
    made_by.write_text("an older one\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ReleaseError):
        releases.root(foreign())


def test_the_cluster_is_of_the_release_asked_for(slurm, request):
    release, _, auth = request.config.getoption("--slurm").partition("/")
    release = release or releases.native()
    assert slurm.run("sinfo", "--version").stdout.split()[1].startswith(f"{release}.")
    shown = slurm.run("scontrol", "show", "config").stdout
    assert f"= auth/{auth or 'munge'}\n" in shown
    assert f"{slurm.settings.version[0]}.{slurm.settings.version[1]:02}" == release
