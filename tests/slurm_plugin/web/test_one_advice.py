"""The pages show the advice that nimo-advise gives on the same request, over made-up stores."""

import re
from dataclasses import replace
from html import unescape
from urllib.parse import quote

import pytest

from predictor.stored_table import decode
from sacct_ingest.records import CURVE_LEVELS
from sacct_ingest.store import Store
from sacct_ingest.text.durations import duration_text
from slurm_plugin.cli.sbatch_request import request
from slurm_plugin.config.settings import Config
from slurm_plugin.demo.history import applications
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.reports.advice_text import options_of
from slurm_plugin.stored_advice.advise import advise, advise_usual
from tests.predictor.rows import of_another_release
from tests.slurm_plugin import random_stores
from tests.slurm_plugin.cli.conftest import learned
from tests.slurm_plugin.made import NOW
from tests.slurm_plugin.web.conftest import own

__all__ = ["learned"]
COMMANDS = {f"app{k}.sh": f"app{k}.sh input" for k in range(20)}
COMMANDS |= {one.name: one.command for one in applications("ada")}
DEMO = "demo"


@pytest.fixture(params=[*random_stores.SEEDS, DEMO])
def site(request, of_all_workers):
    """Configuration of a store: of random histories, or the demo's."""
    if request.param == DEMO:
        path = request.getfixturevalue("learned").store
    else:
        path = random_stores.filled(of_all_workers, request.param)
    return Config(cluster="pine", store=f"sqlite:///{path}")


def usual_jobs(site):
    """Each application with the job that its runs usually were, and the advice on it."""
    with Store.open(site.store_url) as store:
        tables = [decode(row.payload) for row in store.fits.all() if row.level in CURVE_LEVELS]
        made = [(table, advise_usual(store, table, site, now_s=NOW)) for table in tables]
    return [(table, *one) for table, one in made if one]


def told(site, table, usual):
    """The advice of nimo-advise on a script with this request."""
    command = COMMANDS[usual.run.name]
    words = [*usual.words.split(), *command.split()]
    if tag := usual.run.tag:
        words.insert(0, "--comment=nimo:app={},problem={}".format(*tag.split("/")[1:]))
    asked = request(words, user=usual.run.user)
    asked |= {"work_dir": usual.run.work_dir, "inputs_changed_s": None, "name": usual.run.name}
    return advise(Job(**asked), site, now_s=NOW)


def words_of(page):
    return " ".join(unescape(re.sub("<[^>]*>", " ", page.text)).split())


def test_a_page_shows_what_nimo_advise_says_of_the_same_request(site, ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = 0
    for table, usual, advice in usual_jobs(site):
        script = tmp_path / COMMANDS[usual.run.name].split()[0]
        script.write_text("#!/bin/sh\nsrun ./solve\n")
        said = told(site, table, usual)
        assert said.rows == advice.rows
        assert options_of(said) == options_of(advice), usual.words
        page = ask(f"/application?level={table.level}&key={quote(table.key)}&counts=all", of=site)
        text = words_of(page)
        shown = re.search(r"Ask for: (.*?) (?:\(about|For a job)", text)
        assert (shown[1] if shown else "") == options_of(said)
        assert f"For a job that asks for {usual.words}" in text
        row = next(
            (one for one in said.rows if one.nodes == said.asked and not one.unbounded), None
        )
        if row is not None and len(said.rows) > 1:
            link = f"/application?level={table.level}&key={quote(table.key)}&count={row.nodes}"
            size = said.unit.counted(row.nodes)
            text = words_of(ask(link, of=site))
            assert f"On {size}: about {duration_text(row.time_s)}, " in text
        seen += 1
    assert seen > 2


def test_the_start_page_has_the_same_lines(site, ask):
    text = words_of(ask("/mine", "ada", own("ada"), of=site))
    jobs = [one for one in usual_jobs(site) if one[0].owner == "ada" and not one[0].parts]
    lines = {options_of(advice) for _, _, advice in jobs if options_of(advice)}
    shown = set(map(str.strip, re.findall(r"#SBATCH ((?:--(?!comment)\S+ ?)+)", text)))
    assert shown
    assert shown <= lines


def test_what_another_release_predicted_says_so(ask, tmp_path):
    path = random_stores.filled(tmp_path, random_stores.SEEDS[0])
    site = Config(cluster="pine", store=f"sqlite:///{path}")
    with Store.open(site.store_url) as store:
        rows = store.fits.all()
        store.fits.replace([replace(row, payload=of_another_release(row.payload)) for row in rows])
    owner = decode(rows[0].payload).owner
    text = words_of(ask("/mine", owner, own(owner), of=site))
    assert "another release of NIMO made its prediction; 'nimo fit' makes it anew" in text
    assert "not enough runs yet" not in text
