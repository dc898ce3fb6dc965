"""The examples in docstrings and pages are true."""

import doctest
import importlib

import pytest

from tests.docs.pages import PAGES, ROOT

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
