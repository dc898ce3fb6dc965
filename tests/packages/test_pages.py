"""Manual pages and completion say what the parsers say."""

import re
import shutil
import subprocess

import pytest

from packages import manual as pages
from slurm_plugin.cli import advise
from slurm_plugin.cli.nimo import COMMANDS, EXPERIMENTS, command_parser, tables_of

needs_man = pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")


@pytest.fixture(scope="module")
def made():
    return dict(pages.pages())


def test_every_command_has_a_page(made):
    names = {
        "nimo.1",
        "nimo-lab.1",
        "nimo-advise.1",
        *map("{}.1".format, map(pages.page_of, COMMANDS)),
    }
    assert set(made) == names
    for name, text in made.items():
        assert f".SH NAME\n{name[:-2]}".replace("-", "\\-") in text


def test_the_old_name_of_an_experiment_has_its_page(tmp_path):
    pages.write(tmp_path)
    for name in EXPERIMENTS:
        page = tmp_path / f"man/man1/nimo-{name}.1"
        assert page.read_text() == f".so man1/nimo-lab-{name}.1\n"
        assert (tmp_path / "man" / page.read_text().split()[1]).exists()


@needs_man
def test_groff_understands_every_line(made):
    for name, text in made.items():
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-Kutf8", "-wmac", "-wsyntax", "-wescape"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        assert (name, done.stderr) == (name, "")


def test_parts_of_the_help_are_sections(made):
    text = made["nimo-advise.1"]
    assert ".SH EXIT STATUS\n.nf\n  0    advice was given" in text
    assert ".SH EXAMPLES\n" in text
    assert "reads all options of sbatch" in text
    assert "  hook\\-path " in made["nimo.1"]


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    """Give what bash offers after some words."""
    folder = tmp_path_factory.mktemp("completion")
    for name, parser in pages.completions().items():
        (folder / name).write_text(pages.completion(parser, "bash"))

    def offered(*words):
        script = """
            . "$1"; shift
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
            f=$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
            $f "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            printf '%s\\n' "${COMPREPLY[@]}"
        """
        done = subprocess.run(
            ["bash", "-c", script, "bash", folder / words[0], *words],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
        )
        return {word.strip() for word in done.stdout.split()}

    return offered


def test_bash_completes_commands_options_and_choices(bash):
    assert bash("nimo", "do") == {"doctor"}
    assert bash("nimo", "lab", "pro") == {"probe", "profile"}
    assert "learn" not in bash("nimo", "")
    assert bash("nimo", "lab", "learn", "--dry") == {"--dry-run"}
    assert bash("nimo", "doctor", "--js") == {"--json"}
    assert bash("nimo", "init", "--mode", "en") == {"enforce"}
    assert bash("nimo-advise", "--ntasks-per-n") == {"--ntasks-per-node"}
    assert bash("nimo-advise", "--pl") == {"--plot"}
    assert bash("nimo", "config", "nimo") >= {"nimo", "nimo-advise"}  # files


def test_they_can_be_written_for_pip_and_a_throw_away_cluster(tmp_path):
    pages.write(tmp_path)
    assert (tmp_path / "man/man1/nimo-why.1").read_text().startswith(".TH")
    for name in ("nimo", "nimo-advise"):
        script = tmp_path / "bash-completion/completions" / name
        subprocess.run(["bash", "-n", script], check=True)
        assert (tmp_path / "zsh/site-functions" / f"_{name}").exists()


def test_a_page_lists_the_columns_of_its_tables(made):
    listed = 0
    for words in COMMANDS:
        parser = command_parser(words)
        declared = tables_of(words)
        assert bool(declared) or "--format COLUMNS" not in parser.format_help(), words
        assert columns_in(made[f"{pages.page_of(words)}.1"]) == names_of(declared)
        listed += len(declared)
    assert columns_in(made["nimo-advise.1"]) == names_of(advise.tables())
    assert listed > 20


def test_every_column_says_what_it_is():
    tables = [one for words in COMMANDS for one in tables_of(words)]
    for one in [*tables, *advise.tables()]:
        assert [name for name, words in one.listing() if not words] == []


def names_of(tables):
    return [one.name for table in tables for one in table.columns]


def columns_in(page):
    section = page.partition(".SH COLUMNS\n")[2].partition(".SH ")[0]
    return re.findall(r"^\.TP\n\\fB(.*)\\fR$", section, re.MULTILINE)
