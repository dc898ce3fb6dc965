"""README on an index, where the files that it links are not."""

import re

import pytest

from packages import stage

hook = pytest.importorskip("packages.metadata_hook", reason="hatchling is not installed")
REPOSITORY = "https://forge.example/site/nimo"


def metadata(monkeypatch, repository):
    monkeypatch.setenv("NIMO_REPOSITORY", repository)
    result = {"version": "0.3.0"}
    hook.MetadataHook(str(stage.PROJECT), {}).update(result)
    return result


def targets(text):
    return re.findall(r"\]\(([^)]+)\)", text)


def test_every_link_of_the_readme_is_an_address_at_the_tag(monkeypatch):
    result = metadata(monkeypatch, f"{REPOSITORY}/")
    links = targets(result["readme"]["text"])
    assert len(links) > 20
    assert [link for link in links if "://" not in link] == []
    inside = [link.partition("/v0.3.0/")[2] for link in links if link.startswith(REPOSITORY)]
    assert [path for path in inside if not (stage.PROJECT / path.partition("#")[0]).exists()] == []
    assert f"({REPOSITORY}/raw/v0.3.0/docs/pictures/" in result["readme"]["text"]


def test_addresses_are_those_of_the_repository(monkeypatch):
    addresses = metadata(monkeypatch, REPOSITORY)["urls"]
    assert addresses["Homepage"] == REPOSITORY
    assert addresses["Changelog"] == f"{REPOSITORY}/blob/v0.3.0/CHANGELOG.md"


def test_a_build_that_knows_no_repository_says_none(monkeypatch):
    result = metadata(monkeypatch, "")
    assert "urls" not in result
    assert result["readme"]["text"] == (stage.PROJECT / "README.md").read_text()
