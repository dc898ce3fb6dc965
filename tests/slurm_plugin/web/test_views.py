"""Pages: what they say, to whom, and where their links lead."""

import re
import shutil
import time
from dataclasses import replace
from html import unescape
from urllib.parse import quote

import pytest

from predictor.refit import row_of
from sacct_ingest.records import JobState
from sacct_ingest.store import Store
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config, ModeRule
from slurm_plugin.doctor import Finding, FindingState
from slurm_plugin.protocol.query_messages import explanation_of
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.reports.why_text import explain
from slurm_plugin.text.table_columns import Table
from slurm_plugin.web.app import PAGES
from slurm_plugin.web.data import Service
from slurm_plugin.web.decisions_page import title_of
from slurm_plugin.web.view import View, script_name
from tests.slurm_plugin.made import table
from tests.slurm_plugin.reports.rows import decision
from tests.slurm_plugin.table_forms import check_all_forms
from tests.slurm_plugin.web.conftest import EVIL, joined, own, tables
from tests.slurm_plugin.web.pages import ADDRESSES, APPLICATION, Tags, listed


def test_every_page_has_an_address_here():
    assert {address.partition("?")[0] for address in ADDRESSES} == set(PAGES)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_page_can_be_navigated(ask, address):
    got = ask(address)
    assert got.status_code == 200, got.text
    tags = Tags(got.text)
    names = [tag for tag, _ in tags.found]
    assert [names.count(one) for one in ("h1", "main", "header", "footer")] == [1, 1, 1, 1]
    assert tags.all("html", "lang") == ["en"]
    assert tags.all("a", "href")[0] == "#content"
    assert "content" in tags.all("main", "id")
    assert len(re.findall("<title>[^<]+ – NIMO for Slurm</title>", got.text)) == 1
    ids = [a["id"] for _, a in tags.found if "id" in a]
    assert len(ids) == len(set(ids))
    labelled = {*tags.all("label", "for")}
    fields = [
        a for tag, a in tags.found if tag in ("input", "select") and a.get("type") != "hidden"
    ]
    assert [a for a in fields if a.get("id") not in labelled] == []
    assert all(a.get("aria-label") for tag, a in tags.found if tag == "nav")


@pytest.mark.parametrize("address", ADDRESSES)
def test_names_are_text_everywhere(ask, address):
    text = ask(address).text
    tags = Tags(text)
    assert {"i", "iframe", "img", "lake"}.isdisjoint(tag for tag, _ in tags.found)
    assert re.findall("<script[^>]*>[^<]*", text) == [f'<script src="/{script_name()}" defer>']
    assert not [a for _, a in tags.found if "style" in a or any(n.startswith("on") for n in a)]
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_evil_name_is_shown(ask):
    for address in ("/applications", f"{APPLICATION}b2", "/decisions", "/decision?id=bbbbbbbbbbbb"):
        assert "bob/<script>alert(1)</script>" in Tags(ask(address).text).text


def test_all_links_lead_somewhere(ask):
    waiting, observed = ["/"], set()
    while waiting:
        address = waiting.pop()
        observed.add(address)
        got = ask(address)
        assert got.status_code == 200, address
        tags = Tags(got.text)
        links = [*tags.all("a", "href"), *tags.all("link", "href")] if address[:2] != "/s" else []
        waiting += [one for one in links if not one.startswith("#") and one not in observed]
        observed.update(waiting)
    assert len(observed) > 20


def test_behind_a_prefix_all_links_have_it(ask):
    for address in ADDRESSES:
        tags = Tags(ask(address, prefix="/nimo").text)
        links = [*tags.all("a", "href"), *tags.all("link", "href"), *tags.all("form", "action")]
        assert [one for one in links if not one.startswith(("#", "/nimo/"))] == []


def test_a_list_says_how_it_is_ordered(ask):
    def order(address):
        heads = re.findall(r'aria-sort="(\w+)"><a href="[^"]*">([^<]+)<', ask(address).text)
        return {title: direction for direction, title in heads}

    assert order("/applications") == {"verdict": "ascending"}
    assert order("/applications?order=runs") == {"runs": "descending"}
    assert order("/applications?order=runs&reverse=yes") == {"runs": "ascending"}


def test_a_list_comes_a_page_at_a_time(ask, store_path):
    with Store.open(str(store_path)) as store:
        many = [table(level="line", key=f"k{i}", label=f"u/app{i:03}") for i in range(120)]
        store.fits.replace([row_of(one) for one in many])
    address = "/applications?order=application"
    pages = [ask(f"{address}&page={n}").text for n in (1, 2, 3)]
    assert [len(listed(page)) for page in pages] == [50, 50, 20]
    assert [name for page in pages for name in listed(page)] == [f"u/app{i:03}" for i in range(120)]
    assert "120 applications; page 1 of 3" in pages[0]
    assert listed(ask(f"{address}&page=999").text) == listed(pages[2])
    assert listed(ask("/applications?q=app11").text) == [f"u/app{i}" for i in range(110, 120)]


DECISION = re.compile(r"/decision\?id=(\w+)")


def followed(ask, address):
    """Give a page of decisions and all older ones."""
    while address:
        yield (text := ask(address).text)
        older = re.search(r'<a href="([^"]+)" rel="next">Older', text)
        address = unescape(older[1]) if older else ""


def test_decisions_come_a_page_at_a_time(ask, store_path):
    with Store.open(str(store_path)) as store:
        ((one, _), *_) = store.decisions.with_outcomes()
        store.decisions.add(
            [replace(one, decision_id=f"{i:012x}", at_s=1e9 + i // 2) for i in range(118)]
        )
    observed = [one for text in followed(ask, "/decisions") for one in DECISION.findall(text)]
    assert len(observed) == len(set(observed)) == 121


def test_what_no_index_finds_is_looked_for_a_span_at_a_time(ask, store_path):
    with Store.open(str(store_path)) as store:
        ((one, _), *_) = store.decisions.with_outcomes()
        old_s = one.at_s - 200 * 86_400
        store.decisions.add([replace(one, decision_id="d" * 12, at_s=old_s, partition="rare")])
    pages = list(followed(ask, "/decisions?partition=rare"))
    assert all("Decisions since" in text for text in pages)
    assert [DECISION.findall(text) for text in pages] == [[], [], ["d" * 12]]
    assert "Decisions since" not in ask("/decisions?user=ada").text


@pytest.mark.parametrize(
    ("user", "accounts", "ids"),
    [("ada", (), "a"), ("bob", (), "bc"), ("eve", (), ""), ("ada", ("bio",), "ab")],
)
def test_users_see_decisions_about_their_own_jobs(ask, user, accounts, ids):
    text = ask("/decisions", user, own(user, *accounts)).text
    assert set(re.findall(r"/decision\?id=(\w)", text)) == set(ids)
    for one in "abc":
        status = ask(f"/decision?id={one * 12}", user, own(user, *accounts)).status_code
        assert status == (200 if one in ids else 404)


def test_a_decision_says_what_was_asked_chosen_and_what_happened(ask, store_path):
    joined(store_path)
    text = Tags(ask(f"/decision?id={'a' * 12}").text).text
    assert "Job 900008: 4 nodes instead of 2" in text
    assert "Job 900008 (ada/wrf) asked for 1 to 8 nodes" in text
    for words in ("asked, predicted", "chosen, predicted", "happened, completed", "recommended: 4"):
        assert words in text
    assert "left as it was" in ask(f"/decision?id={'c' * 12}").text


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({}, "4 nodes instead of 2"),
        ({"requested_nodes": 4}, "4 nodes, of 1 to 8"),
        ({"requested_nodes": 4, "max_nodes": None}, "4 nodes, of 1 or more"),
        ({"requested_nodes": 4, "min_nodes": 4, "max_nodes": 4}, "left as it was"),
        ({"requested_nodes": 4, "unit": "cpus"}, "left as it was"),
        ({"action": "keep", "given_mem_mib": 300, "asked_mem_mib": 400}, "--mem=300M"),
        ({"action": "keep", "given_limit_s": 1200}, "a limit of 20 min"),
        ({"action": "keep", "applied": False}, "left as it was"),
    ],
)
def test_the_title_and_the_sentences_of_a_decision_agree(fields, title):
    one = decision(**fields)
    assert title_of(one, None) == f"ada/wrf: {title}"
    given = "The job was given" in explain(explanation_of(one, None), 17)
    assert given is (title != "left as it was")


def test_the_site_names_admins(ask):
    assert "own jobs" in ask("/", "ada", own("ada")).text
    assert "all jobs" in ask("/", "ada", own("ada"), admins=("ada",)).text


def test_the_overview_sums_up_what_is_visible(ask):
    text = Tags(ask("/").text).text
    assert "3 decisions, " in text
    assert "Not all jobs are counted" not in text
    assert "others' jobs are not shown" in Tags(ask("/report", "ada", own("ada")).text).text
    assert "1 decision, " in Tags(ask("/report", "ada", own("ada")).text).text
    assert "No decision is recorded" in Tags(ask("/report", "eve", own("eve")).text).text


def test_the_overview_says_whether_nimo_runs_and_what_to_do(ask):
    fine = Finding(state=FindingState.OK, message="nimod 0.2.0 answers")
    old = Finding(state=FindingState.WARNING, message="fitted 9 days ago", fix="nimo <fit>")
    text = ask("/", service=Service(lambda: [fine, old])).text
    assert [text.count(f"<h2>Does it {one}?</h2>") for one in ("run", "help")] == [1, 1]
    assert '<a href="#status">Put right 1 thing under' in text
    shown = Tags(text).text
    assert "! It runs, with a warning: mode: observe · nimod 0.2.0 answered 0 s ago" in shown
    assert "! warning: fitted 9 days ago nimo <fit>" in " ".join(shown.split())
    assert "To switch it off: touch /etc/nimo/off" in shown


@pytest.mark.parametrize(
    ("mode", "rules", "words"),
    [
        (Mode.OFF, (), "NIMO leaves all jobs alone."),
        (Mode.OBSERVE, (), "NIMO changes no job, and records what it would do."),
        (Mode.OFF, (ModeRule(mode=Mode.ENFORCE),), "NIMO changes jobs where"),
        (Mode.ENFORCE, (ModeRule(mode=Mode.OFF),), "NIMO changes jobs where"),
    ],
)
def test_the_overview_says_what_the_mode_does_to_jobs(ask, store_path, mode, rules, words):
    config = Config(store=f"sqlite:///{store_path}", mode=mode, rules=rules)
    assert words in ask("/", of=config).text


def test_a_site_that_runs_is_not_told_to_be_set_up(ask, tmp_path):
    empty = Config(store=f"sqlite:///{tmp_path}/empty.db")
    with Store.open(empty.store_url):
        fine = Service(lambda: [Finding(state=FindingState.OK, message="nimod 0.2.0 answers")])
    assert "nimo init" in ask("/", of=empty).text
    assert "nimo init" not in ask("/", of=empty, service=fine).text


@pytest.mark.parametrize("page", ["/mine", "/decisions"])
def test_a_list_of_jobs_says_how_each_ended(ask, store_path, page):
    joined(store_path, state=JobState.OUT_OF_MEMORY, elapsed_s=9)
    assert "out of memory after 9 s" in Tags(ask(page, "ada").text).text


def test_pages_name_no_problem_or_reason_by_its_code(ask, store_path):
    joined(store_path)
    with Store.open(str(store_path)) as store:
        now_s = time.time() - 30
        store.decisions.add([decision(decision_id="d" * 12, at_s=now_s, reason="best_already")])
    codes = {one.value for one in Reason if "_" in one.value} | {"linear_section"}
    for page in ("/report?days=30", "/decisions", "/mine", "/"):
        text = Tags(ask(page).text).text
        assert not [code for code in codes if code in text], page
    csv = ask("/table.csv?name=reasons&days=30").text
    assert [code for code in codes if code in csv]


def test_a_job_is_found_by_its_id_and_what_is_named_leads_on(ask, store_path):
    joined(store_path)
    found = ask("/decisions?job=900008").text
    assert ask("/decisions?job=900008_3").text.count("/decision?id=") == 1
    assert re.findall(r"/decision\?id=(\w)", found) == ["a"]
    assert ">900008<" in found
    assert "2 → 4" in found
    asked = {"changed=yes": "ab", "changed=no": "c", "state=COMPLETED": "a", "day=2001-01-01": ""}
    # Bars of the overview lead to the decisions behind them.
    bar = unescape(re.search(r'/decisions\?(ratio=[^"]+)', ask("/").text)[1])
    for query, ids in (
        asked | {bar: "a", "label=ada/wrf": "a", "ratio=7-9": "", "job=5": ""}
    ).items():
        got = ask(f"/decisions?{query}").text
        assert set(re.findall(r"/decision\?id=(\w)", got)) == set(ids), query
    assert 'href="/decisions?user=ada"' in found
    assert ask("/decisions?job=900008", "bob", own("bob")).text.count("/decision?id=") == 0


def test_a_refit_is_noticed(ask, store_path, config):
    assert "bob/melt" in ask("/applications").text
    with Store.open(str(store_path)) as store:
        store.fits.replace([row_of(table(level="line", key="n", label="ada/new"))])
    text = ask("/applications").text
    assert "ada/new" in text
    assert "bob/melt" not in text


@pytest.mark.parametrize(
    ("address", "reported"),
    [
        ("/applications?order=size", "order: one of application, runs"),
        ("/applications?page=0", "page: a whole number from 1"),
        ("/applications?page=x", "page: a whole number from 1"),
        ("/applications?page=99999999999", "page: a whole number from 1"),
        (f"/applications?q={'x' * 700}", "q: at most 600 characters"),
        ("/decisions?before=yesterday", "before: seconds since the epoch"),
        ("/decisions?before=nan", "before: seconds since the epoch"),
        ("/decisions?mode=loud", "mode: one of off, observe"),
        ("/decisions?job=x", "job: a whole number from 1"),
        ("/decisions?day=soon", "day: a date as"),
        ("/report?days=8", "days: one of"),
        (f"/applications?order={quote(EVIL)}", "order: one of"),
    ],
)
def test_a_query_that_makes_no_sense_names_the_fix(ask, address, reported):
    got = ask(address)
    assert got.status_code == 400
    assert reported in Tags(got.text).text
    assert "<script>" not in got.text


def test_what_is_not_there_is_said_to_be_so_and_leads_on(ask):
    for address in ("/nothing", "/applications/", "/application", f"{APPLICATION}zz", "/decision"):
        got = ask(address)
        tags = Tags(got.text)
        assert (got.status_code, "job" in tags.all("input", "name")) == (404, True)
        assert "/applications" in tags.all("a", "href")
    assert ask("/decision?id=0").status_code == 404


def test_a_store_that_cannot_be_read_is_reported_without_its_place(ask, store_path):
    store_path.unlink()
    got = ask("/applications")
    assert got.status_code == 503
    assert str(store_path) not in got.text


def test_a_saved_replay_is_shown_and_read_again_when_it_changes(ask, tmp_path, saved_replay):
    saved = tmp_path / "replay.json"
    assert "has no replay yet" in ask("/replay").text
    assert "No such file" in ask("/replay", replay=str(saved)).text
    saved.write_text('{"source": 3}')
    assert "not what 'nimo replay --json'" in Tags(ask("/replay", replay=str(saved)).text).text
    shutil.copy(saved_replay, saved)
    page = ask("/replay", replay=str(saved)).text
    assert page.index("Benefit against harm") < page.index("<details>")
    assert page.index("<details>") < page.index("Results of each setting")
    text = Tags(page).text
    assert "the suggested one" in text or "the present one" in text
    assert re.search(r"\d+ jobs over [\d.]+ (min|h|days) on \d+ nodes", text)
    assert "Switching NIMO on would" in text
    assert "moldable jobs" in text


def test_a_report_has_narrow_tables_each_as_csv(ask, store_path):
    joined(store_path, elapsed_s=9.0)
    text = ask("/report?days=30").text
    heads = [block.count('scope="col"') for block in re.findall("<thead>.*?</thead>", text, re.S)]
    assert heads
    assert max(heads) <= 8
    assert 'href="/decisions?reason=cheapest"' in text
    assert 'href="/decisions?job=900008"' in text
    assert text.count('class="screen" href="/table.csv') == len(heads)  # in no print
    links = [one.replace("&amp;", "&") for one in re.findall(r'href="(/table.csv[^"]+)"', text)]
    assert len(links) == len(heads)
    got = ask(next(one for one in links if "name=jobs" in one))
    assert got.headers["content-type"].startswith("text/csv")
    assert got.text.splitlines()[0].startswith("job_id,application,nodes")
    assert "900008,ada/wrf,4" in got.text
    assert "900008" not in ask("/table.csv?name=jobs", "bob", own("bob")).text
    assert ask("/table.csv?name=none").status_code == 400


def test_a_page_is_small(ask, store_path, saved_replay):
    with Store.open(str(store_path)) as store:
        ((one, _), *_) = store.decisions.with_outcomes()
        store.decisions.add(
            [replace(one, decision_id=f"{i:012x}", at_s=time.time() - i) for i in range(300)]
        )
        many = [table(level="line", key=f"k{i}", label=f"u/app{i:03}") for i in range(120)]
        store.fits.replace([row_of(one) for one in [*many, *tables()]])
    for address in ADDRESSES:
        assert len(ask(address, replay=str(saved_replay)).content) < 40_000, address


def test_no_page_needs_more_than_its_own_files(ask):
    text = ask("/").text
    style = Tags(text).all("link", "href")[0]
    got = ask(style)
    assert got.headers["content-type"].startswith("text/css")
    assert "immutable" in got.headers["cache-control"]
    assert re.findall(r"url\(|@import|//", got.text) == []
    # Nothing moves, whatever somebody prefers.
    assert re.findall(r"animation|transition|@keyframes", got.text) == []
    assert ask("/icon.svg").headers["content-type"] == "image/svg+xml"
    assert style.startswith("/style-")


@pytest.mark.parametrize("address", ADDRESSES)
def test_tables_of_a_page_have_all_forms(ask, address, monkeypatch):
    shown = []
    rendered = View.render

    def render(view, *words, **context):
        shown.extend(tables_in(context))
        return rendered(view, *words, **context)

    monkeypatch.setattr(View, "render", render)
    assert ask(address).status_code == 200
    assert shown or address in ("/queue", "/replay")  # nothing is known of them here
    for one in shown:
        check_all_forms(one)


def tables_in(value):
    if isinstance(value, Table):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tables_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tables_in(one)
