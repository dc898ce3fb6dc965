"""What the packages hold is pinned, hashed and listed."""

import json
import re
import tomllib
import venv
from importlib.metadata import PackageNotFoundError, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from packages import stage

PROJECT = tomllib.loads((stage.PROJECT / "pyproject.toml").read_text())["project"]


def pinned(path):
    """Each requirement of a file, with its hashes."""
    logical = path.read_text().replace("\\\n", " ").splitlines()
    result = []
    for line in filter(None, map(str.strip, logical)):
        text, *hashes = line.split(" --hash=")
        result.append((Requirement(text.strip()), [one.strip() for one in hashes]))
    return result


@pytest.mark.parametrize("path", [stage.REQUIREMENTS, stage.BUILD_REQUIREMENTS])
def test_all_is_pinned_to_hashes(path):
    rows = pinned(path)
    assert len(rows) > 3
    for requirement, hashes in rows:
        assert [one.operator for one in requirement.specifier] == ["=="], requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), requirement


def test_workflows_use_actions_by_the_hash_of_a_commit():
    """A tag can be moved: to another's code, beside the token that publishes."""
    used = [
        line.partition("uses:")[2].strip()
        for path in (stage.PROJECT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    assert len(used) > 5
    for one in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", one), one


def needed(text, observed):
    """Add what a requirement needs on this Python, as far as it is installed here."""
    requirement = Requirement(text)
    name = canonicalize_name(requirement.name)
    if name == "nimo-slurm":
        for extra in requirement.extras:
            for one in PROJECT["optional-dependencies"][extra]:
                needed(one, observed)
        return
    if name in observed or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
        return
    observed.add(name)
    try:
        for one in requires(name) or ():
            if "extra ==" not in one:
                needed(one, observed)
    except PackageNotFoundError:
        pass


def test_nothing_that_is_needed_is_missing():
    names = set()
    for text in [*PROJECT["dependencies"], "nimo-slurm[packages]"]:
        needed(text, names)
    assert names - {canonicalize_name(one.name) for one, _ in pinned(stage.REQUIREMENTS)} == set()


def test_what_is_pinned_is_what_the_project_asks_for():
    asked = [*PROJECT["dependencies"]]
    for extra in ("packages", "mariadb", "metrics", "web", "zstd"):
        asked += PROJECT["optional-dependencies"][extra]
    expected = {canonicalize_name(one.name): one for one in map(Requirement, asked)}
    for requirement, _ in pinned(stage.REQUIREMENTS):
        name = canonicalize_name(requirement.name)
        [version] = [Version(one.version) for one in requirement.specifier]
        if name in expected:
            assert expected[name].specifier.contains(version), requirement


def test_libpq_is_that_of_the_system():
    names = {canonicalize_name(one.name) for one, _ in pinned(stage.REQUIREMENTS)}
    assert "psycopg" in names
    assert not names & {"psycopg-binary", "psycopg2-binary"}
    packages = stage.PROJECT / "packages"
    assert "libpq5" in (packages / "deb" / "control.in").read_text()
    assert "libpq" in (packages / "rpm" / "nimo-slurm.spec").read_text()


def test_the_bill_of_materials_lists_what_is_there(tmp_path):
    place = tmp_path / "environment"
    venv.create(place, with_pip=False)
    [packages] = place.glob("lib/python3*/site-packages")
    for name, version in (("one", "1.0"), ("two", "2.5")):
        folder = packages / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    path = tmp_path / stage.BILL
    stage.bill_of_materials(place / "bin" / "python3", path)
    bill = json.loads(path.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    result = {(one["name"], one["version"], one["purl"]) for one in bill["components"]}
    assert result == {("one", "1.0", "pkg:pypi/one@1.0"), ("two", "2.5", "pkg:pypi/two@2.5")}
