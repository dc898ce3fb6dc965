"""No text has anybody install NIMO by its name from a public index, where it is not registered.

Whoever registers that name there would be run, as root where Ansible does it.  All texts install
from a clone, or a release's file with its checksum.
"""

import re
import subprocess
import sys

import pytest

from packages import stage
from sacct_ingest.errors import how_to_install
from tests.packages.test_supply_chain import PROJECT

#: To be set by the change that has texts name the index, once the owner has registered the name.
REGISTERED = False
#: The name as indexes of Python packages take it (PEP 503), and what begins like it: Spack's.
NAME = r"(?:py[-_.]+)?nimo[-_.]+slurm"
#: What comes after the name of a file: a version, or a pattern.
FILE = r"(?:[-_](?:\d|\*|\$|%|\{|…)|\*|\.(?:spec|whl|deb|rpm|eb|db)\b)"
#: Programs that fetch by name, and the words with which they do.
INSTALLERS = (
    r"(?:pip|pip3|pip3?\.\d+|pipx|uv|uvx|rye|hatch|poetry|pdm|pixi|conda|mamba|micromamba"
    r"|easy_install|brew|nix-env|guix|apt|apt-get|aptitude|dnf|yum|zypper|eb|spack)"
)
VERBS = r"(?:install|add|run|get|tool|upgrade|inject|wheel|download|sync|create|update|-m|-S)"
PHRASES = (
    # pip install nimo-slurm, uv tool install 'nimo-slurm[plot]', uvx --from nimo-slurm nimo-advise
    rf"\b{INSTALLERS}\b[^\n|;&#`]*?\b{VERBS}\b[^\n|;&#`]*?(?<![\w./-]){NAME}(?!{FILE})\b",
    rf"\b(?:uvx|pipx run)\b[^\n|;&#`]*?(?<![\w./-]){NAME}(?!{FILE})\b",
    # "install nimo-slurm[web]", "needs nimo-slurm[dask]", with any installer or none
    rf"(?<![\w./-]){NAME}\[",
    # nimo-slurm==0.2.0, nimo_slurm >= 0.2 in requirements and dependencies
    rf"(?<![\w./-]){NAME}\s*(?:(?:==|>=|~=|<=)\s*\d|@\s*(?:http|git))",
    # A line of a file of requirements, or of an environment.
    rf"^\s*(?:-\s*)?[\"']?{NAME}[\"']?\s*(?:#.*)?$",
    # Ansible's modules and variables, and other YAML
    rf"\b(?:name|pkg|package|nimo_pip|nimo_package|default|requirements)\s*[:=]\s*[\"']?{NAME}[\"'\s]*$",
    # ["pip", "install", "nimo-slurm"]
    rf"install[\"'],[^\n]*[\"']{NAME}[\"'\[]",
    rf"https?://(?:test\.)?pypi\.org/(?:project|simple|p)/{NAME}",
)
PHRASE = re.compile("|".join(PHRASES), re.MULTILINE | re.IGNORECASE)
#: Lines that name the project itself, and install nothing from an index.
OWN = (
    "pyproject.toml",  # the name, and extras that are made of others
    "packages/stage.py",  # pip with --no-index
    "tests/",  # among them the phrases below
    "docs/changelog.md",
)
PLAIN = {
    "packages/easybuild/": re.compile(r"^name = 'nimo-slurm'$"),
    "packages/deb/control.in": re.compile(r"^Package: nimo-slurm$"),
    "packages/rpm/": re.compile(r"^Name: +nimo-slurm$"),
}
REFUSED = (
    *("pipx install nimo-slurm", "pip install --user nimo-slurm", "pip install nimo-slurm[web]"),
    *("pip install 'nimo-slurm[plot]'", "uv tool install nimo-slurm", "uv pip install nimo_slurm"),
    *("uvx --from nimo-slurm nimo-advise", "pipx run --spec nimo-slurm nimo", "uvx nimo-slurm"),
    *("python3 -m pip install -U nimo.slurm", "conda install -c conda-forge nimo-slurm"),
    *("and install nimo-slurm[mariadb]", "nimo-slurm==0.2.0", "  - nimo-slurm", "nimo-slurm"),
    *("nimo_pip: nimo-slurm", "        default: nimo-slurm", "    name: nimo-slurm"),
    *("RUN pip install nimo-slurm>=0.2", "spack install py-nimo-slurm", "apt install nimo-slurm"),
    *("https://pypi.org/project/nimo-slurm/", '["pip", "install", "nimo-slurm"]'),
    *("poetry add nimo-slurm", "uv add nimo-slurm", "eb nimo-slurm --robot install nimo-slurm"),
)
ALLOWED = (
    *("pipx install .", "pip install '.[plot]'", "pipx install ./nimo_slurm-*.whl"),
    *("apt install ./build/deb/nimo-slurm_*.deb", "rpm -i --nodeps nimo-slurm-*.rpm"),
    *("dpkg -s nimo-slurm", "apt remove nimo-slurm", "spack dev-build py-nimo-slurm@0.2.0"),
    *("/usr/share/doc/nimo-slurm/examples", "version('nimo-slurm')", "nimo-slurm is not there"),
    *("rpmbuild -bb packages/rpm/nimo-slurm.spec", "apt purge nimo-slurm"),
)


def texts():
    """Name each file of the project that is text, with its lines."""
    listed = ["git", "-C", str(stage.PROJECT), "ls-files", "-z", "-co", "--exclude-standard"]
    done = subprocess.run(listed, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a clone")
    for name in filter(None, done.stdout.decode().split("\0")):
        path = stage.PROJECT / name
        if path.is_symlink() or not path.is_file() or b"\0" in (data := path.read_bytes()):
            continue
        yield name, data.decode(errors="replace")


@pytest.mark.skipif(REGISTERED, reason="the name is the project's")
def test_no_text_installs_by_a_name_that_is_not_registered():
    found, read = [], 0
    for name, text in texts():
        read += 1
        if name.startswith(OWN):
            continue
        plain = next((rule for begin, rule in PLAIN.items() if name.startswith(begin)), None)
        lines = text.splitlines()
        found += [
            f"{name}:{at}: {line.strip()}"
            for at, line in enumerate(lines, 1)
            if PHRASE.search(line) and not (plain and plain.search(line))
        ]
    assert read > 500
    assert not found


@pytest.mark.parametrize("line", REFUSED)
def test_each_way_to_write_it_is_found(line):
    assert PHRASE.search(line)


@pytest.mark.parametrize("line", ALLOWED)
def test_files_and_clones_may_be_named(line):
    assert not PHRASE.search(line)


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_hints_name_others_packages(extra):
    said = how_to_install(extra)
    others = [one for one in PROJECT["optional-dependencies"][extra] if "nimo-slurm" not in one]
    assert "-m pip install" in said
    assert not re.search(NAME, said.replace(sys.executable, ""), re.IGNORECASE)
    plain = re.sub(r"[-_.]+", "-", said.lower())
    names = (re.split(r"[\[>=; ]", one)[0].lower() for one in others)
    assert all(re.sub(r"[-_.]+", "-", name) in plain for name in names)
