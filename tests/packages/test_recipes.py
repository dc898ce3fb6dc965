"""Recipes of Spack and EasyBuild, and GitHub's workflows, are what the project says of itself."""

import re
import runpy
import shutil
import subprocess
import sys
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from packages import stage
from tests.packages.test_supply_chain import PROJECT, pinned

(EASYCONFIG,) = (stage.PROJECT / "packages" / "easybuild").glob("*.eb")
SPACK = stage.PROJECT / "packages" / "spack"
WORKFLOWS = {one.stem: one for one in (stage.PROJECT / ".github" / "workflows").glob("*.yml")}
NAME, VERSION = PROJECT["name"], PROJECT["version"]
NEEDS = {one.name: one for one in map(Requirement, PROJECT["dependencies"])}
#: What EasyBuild 5.4's bundles of 2025a hold.
BUNDLES = {
    "SciPy-bundle": {"numpy", "scipy"},
    "Python-bundle-PyPI": {"jinja2", "rich", "threadpoolctl"},
    "PyYAML": {"pyyaml"},
}


#: Where a text names a release of NIMO: its files, its tag, its section of the changelog.
RELEASE = re.compile(
    r"(?:nimo[-_]slurm[-_@]|checkout v|[Aa] tag `?v|^version: )(\d+\.\d+\.\d+)", re.MULTILINE
)


@pytest.mark.parametrize(
    "page",
    [
        "CITATION.cff",
        "CONTRIBUTING.md",
        ".github/workflows/release.yml",
        "docs/sites.md",
        "docs/verify.md",
        "packages/ansible/README.md",
    ],
)
def test_texts_that_name_a_release_name_this_one(page):
    assert {*RELEASE.findall((stage.PROJECT / page).read_text())} == {VERSION}


def test_the_newest_release_of_the_changelog_is_this_one():
    changelog = (stage.PROJECT / "CHANGELOG.md").read_text()
    first, *_ = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.MULTILINE)
    assert first == VERSION


def least(requirement):
    (only,) = requirement.specifier
    assert only.operator == ">="
    return Version(only.version)


def test_easybuild_has_what_the_project_needs():
    given = runpy.run_path(str(EASYCONFIG))
    assert (given["name"], given["version"]) == (NAME, VERSION)
    toolchain = "-".join(given["toolchain"][key] for key in ("name", "version"))
    assert EASYCONFIG.name == f"{NAME}-{VERSION}-{toolchain}.eb"
    versions = dict(given["dependencies"])
    assert Version(versions["Python"]) in Requirement(f"x{PROJECT['requires-python']}").specifier
    own = {name: version for name, version, *_ in given["exts_list"]}
    assert all(Version(own[name]) in NEEDS[name].specifier for name in own.keys() & NEEDS)
    bundled = set().union(*(BUNDLES[name] for name in versions.keys() & BUNDLES))
    assert NEEDS.keys() <= own.keys() | bundled
    assert not own.keys() & bundled
    assert {f"bin/{name}" for name in PROJECT["scripts"]} == {*given["sanity_check_paths"]["files"]}


def test_easybuild_takes_sources_by_the_hashes_that_packages_pin():
    hashes = {}
    for requirement, texts in pinned(stage.REQUIREMENTS):
        hashes[requirement.name] = [text.removeprefix("sha256:") for text in texts]
    recipe = runpy.run_path(str(EASYCONFIG))
    sums = {}
    for name, _, *options in recipe["exts_list"]:
        if options and "checksums" in options[0]:
            sums[name] = options[0]["checksums"]
    assert len(sums) >= 4
    for name, checksums in sums.items():
        assert {*checksums} <= {*hashes[name.replace("_", "-")]}, name


def test_easybuild_s_own_parser_reads_it():
    pytest.importorskip("easybuild.framework", reason="pip install .[sites]")
    read = "from easybuild.framework.easyconfig.parser import EasyConfigParser as P"
    show = "one = P(sys.argv[1]).get_config_dict(); print(one['name'], one['version'])"
    line = [sys.executable, "-c", f"import sys; {read}; {show}", EASYCONFIG]
    made = subprocess.run(line, capture_output=True, text=True, check=False)
    assert made.stdout.split() == [NAME, VERSION], made.stderr


def test_spack_has_what_the_project_needs(monkeypatch):
    """Spack is not on PyPI: its directives are stood in for."""
    calls = {}
    language = ModuleType("spack.package")
    for word in ("license", "version", "variant", "depends_on"):
        setattr(language, word, lambda x, _w=word, **how: calls.setdefault(_w, []).append((x, how)))
    base = ModuleType("spack_repo.builtin.build_systems.python")
    base.PythonPackage = type("PythonPackage", (), {})
    parents = ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems")
    for module in (*map(ModuleType, parents), language, base):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert yaml.safe_load((SPACK / "repo.yaml").read_text())["repo"].keys() == {"namespace", "api"}
    (recipe,) = (SPACK / "packages").glob("*/package.py")
    words = f"py_{NAME}".split("-")
    assert recipe.parent.name == "_".join(words)
    assert "".join(map(str.title, "_".join(words).split("_"))) in runpy.run_path(str(recipe))
    assert [one for one, _ in calls["license"] + calls["version"]] == [PROJECT["license"], VERSION]
    wanted = {f"py-{one.name}": (least(one), None) for one in NEEDS.values()}
    for extra, _ in calls["variant"]:
        (needed,) = map(Requirement, PROJECT["optional-dependencies"][extra])
        wanted[f"py-{needed.name}"] = least(needed), f"+{extra}"
    wanted["python"] = Version(PROJECT["requires-python"].removeprefix(">=")), None
    given = {}
    for spec, how in calls["depends_on"]:
        name, _, version = spec.partition("@")
        if "run" in how["type"]:
            given[name] = Version(version.removesuffix(":")), how.get("when")
    assert given == wanted


def test_the_recipe_with_pip_installs_what_the_units_need():
    extras = PROJECT["optional-dependencies"].keys()
    needed = set()
    for unit in (stage.PROJECT / "etc" / "systemd").glob("*.service"):
        commands = re.findall(r"^ExecStart=\S+/nimo (\w+)", unit.read_text(), re.MULTILINE)
        needed |= extras & {*commands}
    assert needed == {"metrics", "web"}
    page = (stage.PROJECT / "docs" / "install.md").read_text()
    (installed,) = re.findall(r"/opt/nimo/bin/pip install '\.\[([\w,]+)\]' +#", page)
    assert needed <= {*installed.split(",")}


def test_a_release_is_published_by_the_workflow_s_identity_with_attestations():
    """So that registering the name is all that the owner has to do."""
    workflow = yaml.safe_load(WORKFLOWS["release"].read_text())
    build, pypi = workflow["jobs"]["build"], workflow["jobs"]["pypi"]
    # YAML reads "on" as true.
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    assert workflow["permissions"] == {"contents": "read"}
    (publish,) = (one for one in pypi["steps"] if "gh-action-pypi-publish" in one.get("uses", ""))
    assert publish["with"] == {"packages-dir": "python", "attestations": True}
    assert (pypi["environment"], pypi["permissions"]) == ("pypi", {"id-token": "write"})
    assert "secrets." not in WORKFLOWS["release"].read_text()
    (attest,) = (one for one in build["steps"] if "attest" in one.get("uses", ""))
    assert attest["with"] == {"subject-checksums": "dist/SHA256SUMS"}
    assert build["permissions"].items() >= {("id-token", "write"), ("attestations", "write")}
    owner = (stage.PROJECT / "CONTRIBUTING.md").read_text().partition("## A release")[2]
    assert all(word in owner for word in (f"`{NAME}`", "`release.yml`", "environment `pypi`"))


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_s_steps_are_make_targets(name):
    makefile = (stage.PROJECT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)", makefile, re.MULTILINE)[1].split())
    jobs = yaml.safe_load(WORKFLOWS[name].read_text())["jobs"]
    for job in jobs.values():
        assert jobs.keys() >= {*([job["needs"]] if "needs" in job else [])}
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            if made := re.fullmatch(r"make (\S+|\$\{\{ matrix\.(\w+) \}\})", step.get("run", "")):
                assert targets >= {*(matrix[made[2]] if made[2] else [made[1]])}
    if program := shutil.which("actionlint"):
        subprocess.run([program, WORKFLOWS[name]], check=True)
    pythons = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if ":: 3." in one]
    assert name != "checks" or {*pythons} <= {*jobs["checks"]["strategy"]["matrix"]["python"]}
