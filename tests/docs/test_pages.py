"""The pages are built without a warning, and what they tell to type exists."""

import doctest
import importlib
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr
from io import StringIO

import msgspec
import pytest

from sacct_ingest.errors import ScriptError
from sacct_ingest.scripts.job_script import lookup, parse_command_line
from slurm_plugin.cli import advise
from slurm_plugin.cli.nimo import COMMANDS, LAB, command_parser
from slurm_plugin.config.loader import parse
from slurm_plugin.config.settings import Config
from tests.docs.pages import PAGES, ROOT, Shown, blocks, command_lines, inline

_PLACEHOLDER = re.compile(r"[A-Z][A-Z-]+|\$[a-z]+")
#: A sentence may name an option or a command without what must follow it.
_UNFINISHED = re.compile(r"expected (?:one|at least one) argument|arguments are required")
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#]+)(?:#[^)]*)?\)")


def test_the_pages_are_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    run = subprocess.run(
        [*command, ROOT / "docs", tmp_path], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "nimo-advise" in (tmp_path / "commands.html").read_text()
    assert "<math" in (tmp_path / "model-parts.html").read_text()
    elsewhere = re.compile(r"<(?:script|link|img)[^>]*(?:src|href)=\"https?:")
    assert [
        page.name for page in tmp_path.glob("*.html") if elsewhere.search(page.read_text())
    ] == []


@pytest.mark.parametrize("shown", command_lines(), ids=lambda shown: f"{shown.page}: {shown.text}")
def test_command_lines_are_taken(shown):
    assert refused(shown.text) == ""


@pytest.mark.parametrize(
    "wrong",
    [
        "nimo report --colour",
        "nimo reprot",
        "nimo-advise --jsn job.sh",
        "sbatch --nods 3 job.sh",
        "make tests",
    ],
)
def test_wrong_command_lines_are_not(wrong):
    assert refused(wrong)


def test_links_between_files_lead_somewhere():
    broken = [
        (page.name, link)
        for page in PAGES
        for link in _LINK.findall(page.read_text())
        if not (page.parent / link).exists()
    ]
    assert broken == []


def test_settings_that_pages_name_exist():
    recorded = msgspec.to_builtins(Config())
    sections = [name for name in recorded if isinstance(recorded[name], dict)]
    named = re.compile(rf"({'|'.join(sections)})\.([a-z]\w*)")
    wrong = [
        shown
        for shown in inline()
        if (result := named.fullmatch(shown.text)) and result[2] not in recorded[result[1]]
        if result[2] not in ("py", "md", "yaml", "runs", "decisions", "fits")
    ]
    assert wrong == []


def test_settings_that_pages_show_as_yaml_are_taken():
    names = Config.__struct_fields__
    ours = [shown for shown in blocks("yaml") if shown.text.partition(":")[0] in names]
    assert ours
    for shown in ours:
        parse(re.sub(r"\"@[^\"]*\"", "alice", shown.text), name=shown.page)


def refused(text):
    """Why a command line is not taken; empty if it is."""
    # A number for what the reader is to put there (FILE, SECONDS).
    name, *words = (_PLACEHOLDER.sub("1", word) for word in shlex.split(text))
    if name == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return "" if words[0] in targets else "no such target"
    try:
        with redirect_stderr(StringIO()) as reported:
            _parse(name, words)
    except SystemExit as end:
        if end.code and not _UNFINISHED.search(reported.getvalue()):
            return reported.getvalue() or str(end.code)
    except ScriptError as error:
        return str(error)
    return ""


def _parse(name, words):
    if name == "nimo" and words[0].startswith("-"):
        return
    if name == "nimo":
        length = 2 if words[0] == LAB else 1
        if words in ([LAB], ["help"]):
            return
        command = " ".join(words[:length])
        if command not in COMMANDS:
            sys.exit(f"no such command: {command}")
        command_parser(command).parse_args(words[length:])
    else:
        own, sbatch = advise.split_arguments(words) if name == "nimo-advise" else ([], words)
        advise.parser().parse_args(own)
        command = parse_command_line(["sbatch", *sbatch])
        options = sbatch[: sbatch.index(command.script) if command.script in sbatch else None]
        for word in options:
            if word.startswith("--") and not lookup("sbatch", word[2:].partition("=")[0]):
                sys.exit(f"no such option: {word}")


def test_shown_command_lines_are_recognised():
    shown = command_lines()
    assert Shown("README.md", "nimo-advise wrf.sh d02") in shown
    assert Shown("ingest.md", "nimo prune --dry-run") in shown
    assert all("#" not in result.text for result in shown)


SHOWN = ">>> "
PACKAGES = ("sacct_ingest", "predictor", "slurm_plugin")
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if SHOWN in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted
    assert not failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    assert doctest.testfile(str(page), module_relative=False, encoding="utf-8").failed == 0


def test_there_are_examples():
    assert {name.partition(".")[0] for name in MODULES} == set(PACKAGES)


def test_the_readme_names_the_two_commands_of_a_newcomer():
    readme = (ROOT / "README.md").read_text()
    for command in ("make demo", "make test"):
        assert re.search(rf"^{command} +# ", readme, re.MULTILINE)
