"""Campaigns' own files, cut or overwritten at any byte: read, or refused in words with the file."""

from pathlib import Path

import pytest

from sacct_ingest.errors import ConfigError
from slurm_plugin.experiments.learn import description
from slurm_plugin.experiments.plan.workflow_file import parse, text_of
from tests.slurm_plugin.experiments.plan.test_foreign_workflows import DATA, SITE
from tests.slurm_plugin.experiments.plan.test_on_cluster import WORKFLOW
from tests.slurm_plugin.experiments.test_campaign_on_cluster import DESCRIPTION

#: What stands at the cut: what a crash leaves, bytes of no text, YAML's own signs.
WORDS = (b"\0\0", b"\xff", b"[", b"{", b":", b"&a *a", b"-1", b"nan", b"1e400")


def planned(path: Path) -> None:
    parse(text_of(path), name=str(path))


def on_site(path: Path) -> None:
    parse(text_of(DATA / "wfcommons-1.5.json", path), name=str(path))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (WORKFLOW.format(work="/w", check="true"), planned),
        (SITE + "run_times: {count: 2min}\n", on_site),
        (DESCRIPTION, description.load),
    ],
    ids=["workflow", "site", "description"],
)
def test_a_file_cut_anywhere_is_read_or_refused_by_name(tmp_path, text, read):
    path, whole, refused = tmp_path / "mine.yaml", text.encode(), 0
    path.write_bytes(whole)
    read(path)
    for number, at in enumerate(range(0, len(whole), 3)):
        # What follows is lost with a cut, and stays where a byte was overwritten.
        word = WORDS[number % len(WORDS)]
        for data in (whole[:at], whole[:at] + word, whole[:at] + word + whole[at + 1 :]):
            path.write_bytes(data)
            try:
                read(path)
            except ConfigError as error:
                refused += 1
                assert "mine.yaml" in str(error) and "\n" not in str(error)
    assert refused > len(whole) // 3
