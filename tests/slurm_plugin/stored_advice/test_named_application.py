"""nimo-advise --application gives the advice on the application's usual job: random stores."""

import io
import json

import msgspec
import pytest

from predictor.stored_table import decode
from sacct_ingest.errors import NoHistory
from sacct_ingest.records import CURVE_LEVELS
from sacct_ingest.store import RecordRow, Store
from sacct_ingest.store.fits import NODES
from slurm_plugin.cli.advise import main as advise_command
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.nimod import line_client
from slurm_plugin.nimod.answering.questions import AdviceQuestion, Answerer, WorkerState
from slurm_plugin.protocol.advice_messages import Advice, read_advice
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.reports.advice_text import options_of
from slurm_plugin.slurm.known_nodes import known_nodes
from slurm_plugin.stored_advice.advise import advise_named, advise_usual
from slurm_plugin.stored_advice.named_application import usual_job_named
from tests.slurm_plugin import random_stores
from tests.slurm_plugin.made import NOW
from tests.slurm_plugin.stored_advice.test_announced import view
from tests.slurm_plugin.stored_advice.test_one_answer import answer, decoded
from tests.slurm_plugin.stored_advice.test_pasted_lines import lines_of


@pytest.fixture(scope="module", params=random_stores.SEEDS)
def site(request, of_all_workers, tmp_path_factory):
    """Configuration of a store of random histories, with the nodes that nimod left there."""
    folder = tmp_path_factory.mktemp("store")
    path = random_stores.filled(folder, request.param)
    config = Config(cluster="pine", store=f"sqlite:///{path}")
    nodes = msgspec.json.encode(known_nodes(view(random_stores.NODES))).decode()
    with Store.open(config.store_url) as store:
        store.records.put(RecordRow(level=NODES, key="pine", payload=nodes))
    return config


def usual_jobs(config):
    with Store.open(config.store_url) as store:
        tables = [decode(row.payload) for row in store.fits.all() if row.level in CURVE_LEVELS]
        made = [(table, advise_usual(store, table, config, now_s=NOW)) for table in tables]
    return [(table, *one) for table, one in made if one]


def by_nimod(config, application, user, *, private=False):
    """What the process answers that sees the cluster."""
    with Store.open(config.store_url) as store:
        payloads = [(row.level, row.key, row.payload) for row in store.fits.all()]
    state = WorkerState(lambda level, key: None)
    state.service.config = state.config = config
    state.service.tables = PredictionLookup(payloads)
    state.service.cluster = view(random_stores.NODES)
    question = AdviceQuestion(
        Job(user_name=user), private=private, confidence=0.0, clusters="", booked=(),
        application=application,
    )  # fmt: skip
    line = Answerer(state).answer(question)
    fields = msgspec.json.decode(line)
    return read_advice(fields) if fields.get("ok", True) else fields["error"]


def test_the_name_gets_the_advice_on_the_usual_job(site):
    cases = 0
    for table, usual, advice in usual_jobs(site):
        named = decoded(advise_named(table.key, site, user=usual.run.user, now_s=NOW))
        assert answer(named) == answer(advice)
        assert named.rows == decoded(advice).rows
        assert named.usual.options == usual.words
        assert answer(by_nimod(site, table.key, usual.run.user)) == answer(advice)
        cases += 1
    assert cases > 2


def test_what_it_would_have_is_what_is_asked_about_with_the_lines_in_it(site):
    """Who pastes the lines gets the size and the limit that a portal's form shows."""
    for table, usual, _ in usual_jobs(site):
        named = advise_named(table.key, site, user=usual.run.user, now_s=NOW)
        options = usual.options | lines_of(named)
        if (nodes := options.get("nodes", "")).isdigit():
            assert named.usual.nodes == int(nodes)
            each = int(options.get("ntasks-per-node", "1")) * int(options.get("cpus-per-task", "1"))
            whole = "ntasks" in options or "gpus-per-node" in options
            assert whole or named.usual.cpus in (None, each * int(nodes))
        if not {"cpus-per-task", "cpus-per-gpu", "ntasks", "ntasks-per-node"} & options.keys():
            assert named.usual.cpus is None, options
        if "time" in options:
            assert named.usual.limit_s == minutes(options["time"]) * 60


def minutes(text):
    days, _, clock = text.rpartition("-")
    hours, mins, *_ = clock.split(":")
    return int(days or 0) * 1440 + int(hours) * 60 + int(mins)


def test_users_hear_of_others_applications_only_where_jobs_are_not_private(site):
    table, usual, advice = usual_jobs(site)[0]
    told = by_nimod(site, table.key, "eve")
    assert isinstance(told, Advice)
    assert options_of(told) == ""
    assert "there is no history" in by_nimod(site, table.key, "eve", private=True)
    own = by_nimod(site, table.key, usual.run.user, private=True)
    assert answer(own) == answer(advice)


def test_of_several_it_is_the_users_own_with_most_runs(site):
    jobs = usual_jobs(site)
    (few, usual, _), (many, *_), *_ = sorted(jobs, key=lambda one: one[0].runs)
    user = usual.run.user
    with Store.open(site.store_url) as store:
        rows = [row for row in store.fits.all() if row.key in (few.key, many.key)]
        names = {row.label.rpartition("/")[2] for row in rows}
        for name in names:
            job = usual_job_named(store, name, user)
            assert job.user == user
            assert job.run.user == user
        with pytest.raises(NoHistory):
            usual_job_named(store, "never-ran", user)


def asked(capsys, *argv):
    status = advise_command(argv)
    return status, capsys.readouterr().out


def test_the_command_needs_no_script(site, capsys, monkeypatch):
    """One application with --application, and several, each in a line, with --json-lines."""
    store = ["--store", site.store_url.removeprefix("sqlite:///")]
    jobs = usual_jobs(site)[:3]
    user = jobs[0][1].run.user
    jobs = [one for one in jobs if one[1].run.user == user]
    lines = ""
    for table, usual, advice in jobs:
        status, text = asked(capsys, "--application", table.key, "--user", user, "--json", *store)
        told = json.loads(text)
        assert told["nodes"] == advice.nodes
        assert told["usual"]["options"] == usual.words
        lines += json.dumps({"id": status, "application": table.key}) + "\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines + '{"application": "never-ran"}\n'))
    _, text = asked(capsys, "--json-lines", "--user", user, *store)
    *answers, unknown = map(json.loads, text.splitlines())
    assert [one["id"] for one in answers] == [one["status"] for one in answers]
    assert [one["advice"]["nodes"] for one in answers] == [advice.nodes for *_, advice in jobs]
    assert "there is no history of 'never-ran'" in unknown["error"]
    _, text = asked(capsys, "--application", jobs[0][0].key, "--user", user, *store)
    assert f"For a job that asks for {jobs[0][1].words}." in " ".join(text.split())


def test_a_script_does_not_go_with_an_application(capsys):
    with pytest.raises(SystemExit):
        advise_command(["--application", "solve", "job.sh"])
    assert "--application takes no script" in capsys.readouterr().err


def test_a_nimod_that_knows_no_applications_is_no_answer(capsys, monkeypatch):
    """An older one advises on the empty job that comes with the name."""
    monkeypatch.setattr(line_client, "advise", lambda *_, **__: Advice(verdict="unknown"))
    assert advise_command(["--application", "solve"]) == line_client.RequestRefused.exit_status
    assert "knows no --application" in capsys.readouterr().err
