"""Run times of a plan from samples: what no run supports is refused, or doubtful and why."""

import json
from dataclasses import replace

import msgspec
import pytest
from msgspec.structs import replace as with_fields

from predictor.occupancy.active.settings import FunctionForm, Purpose
from predictor.occupancy.functions import transformation
from predictor.occupancy.samples import Occupancies, Sample
from sacct_ingest.errors import ConfigError, NoHistory
from slurm_plugin.config.settings import Config
from slurm_plugin.experiments.learn.description import Journal, ModelChoices, Stage, Trial
from slurm_plugin.experiments.plan import site
from slurm_plugin.experiments.plan.chain import jobs
from slurm_plugin.experiments.plan.plans import plans
from slurm_plugin.experiments.plan.run_times import LATENCY, fit_history, fit_samples
from slurm_plugin.experiments.plan.workflow_file import parse
from slurm_plugin.experiments.plan_command import render
from tests.slurm_plugin.experiments.plan.made import NOW, problem


def flow(**places):
    sites = "\n".join(
        f"  {name}: {{storage: s, attributes: {json.dumps(own)}}}" for name, own in places.items()
    )
    return (
        f"storages: {{s: {{path: /s}}}}\nplaces:\n{sites}\n"
        "files: {f: {at: s, size: 1M}}\n"
        "tasks: {g: {command: x, reads: [f], samples: g.json}}\n"
    )


def planned(folder, rows, **places):
    """Plan one task with samples of ``time_s`` and attributes."""
    samples = [
        {
            "attributes": {k: v for k, v in row.items() if k != "time_s"},
            "utilisation": 0.9,
            "time_s": row["time_s"],
            "data_bytes": 1e9,
        }
        for row in rows
    ]
    (folder / "g.json").write_text(json.dumps(samples))
    text = flow(**places)
    return plans(problem(text, fits=fit_samples(problem(text).workflow, folder)))


def on_site(text, folder):
    """Give the problem as `nimo lab plan --empty` makes it."""
    parsed = parse(text.replace("{storage: s", "{nodes: 1-8, storage: s"), name="flow.yaml")
    return site.problem(parsed, Config(store=f"sqlite:///{folder}/none.db"), folder, empty=True)


MHZ = [{"mhz": m, "time_s": 4.2e5 / m - 300} for m in (400.0, 500.0, 600.0, 700.0, 800.0, 900.0)]


def test_a_place_far_beyond_the_samples_is_no_choice(tmp_path):
    """It was planned with 1e-9 s, and "no plan is better"."""
    with pytest.raises(
        LookupError, match="g: its samples do not support a run time: far: mhz 3000"
    ):
        planned(tmp_path, MHZ, far={"mhz": 3000})
    first, *others = planned(tmp_path, MHZ, near={"mhz": 800}, far={"mhz": 3000})
    assert all(one.schedule.choices["g"].place == "near" for one in (first, *others))
    assert first.doubts == {}


def test_a_place_just_beyond_is_doubtful_and_says_so(tmp_path):
    (plan, *_) = planned(tmp_path, MHZ, near={"mhz": 1000})
    assert plan.doubts == {"g": "mhz 1000 is outside what was run, from 400 to 900"}
    within = planned(tmp_path, MHZ, near={"mhz": 850})[0]
    width = (plan.high_s - NOW) / (plan.end_s - NOW)
    assert width > (within.high_s - NOW) / (within.end_s - NOW)
    reported = "\n".join(render([plan], NOW, None))
    assert "DOUBTFUL g: mhz 1000 is outside what was run" in reported


def test_attributes_that_only_changed_together_are_no_answer(tmp_path):
    """It answered 33 s for 200: memory was always twice the CPUs."""
    rows = [{"cpu": float(c), "mem": 2.0 * c, "time_s": 1200.0 / c} for c in range(1, 7)]
    with pytest.raises(LookupError, match="cpu and mem only changed together"):
        planned(tmp_path, rows, odd={"cpu": 6, "mem": 2})
    (plan, *_) = planned(tmp_path, rows, like={"cpu": 4, "mem": 8})
    assert plan.end_s - NOW == pytest.approx(300.0, rel=0.05)


@pytest.mark.parametrize("bad", [0, -5])
def test_attributes_that_are_none_are_an_error_with_its_place(tmp_path, bad):
    """Zero ended in a traceback."""
    with pytest.raises((ConfigError, LookupError), match=r"mhz|places"):
        planned(tmp_path, MHZ, odd={"mhz": bad})


def test_a_missing_attribute_names_the_place(tmp_path):
    with pytest.raises(ConfigError, match=r"g: attribute mhz is missing.*places\.odd\.attributes"):
        planned(tmp_path, MHZ, odd={"other": 5})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"time_s": 0.0}, "above zero and finite"),
        ({"data_bytes": -1.0}, "above zero and finite"),
        ({"utilisation": 1.5}, "from 0 to 1"),
        ({"attributes": {"mhz": 0.0}}, "attribute mhz is 0"),
        ({"attributes": {}}, "attribute mhz is given for some samples only"),
    ],
)
def test_samples_that_cannot_be_are_an_error_with_their_file(tmp_path, changed, why):
    good = {"attributes": {"mhz": 5.0}, "utilisation": 0.5, "time_s": 9.0, "data_bytes": 1.0}
    (tmp_path / "g.json").write_text(json.dumps([good, {**good, **changed}]))
    with pytest.raises(ConfigError, match=rf"g\.json: .*{why}"):
        fit_samples(problem(flow(near={"mhz": 5})).workflow, tmp_path)
    (tmp_path / "g.json").write_text("[]")
    with pytest.raises(ConfigError, match="no sample to learn from"):
        fit_samples(problem(flow(near={"mhz": 5})).workflow, tmp_path)


def trial(share, data_bytes, **also):
    return Trial(
        key=f"{share}", attempt=0, job_name="x", nodes=1, limit_s=1, planned_s=0, purpose="",
        why="", stage=Stage.DONE, elapsed_s=1000 / share, utilisation=0.5, data_bytes=data_bytes,
        attributes={"share": share}, **also,
    )  # fmt: skip


def test_runs_of_learn_without_bytes_count_where_bytes_tell_nothing(tmp_path):
    trials = [
        trial(1.0, 1000), trial(2.0, None), trial(4.0, 1000), trial(8.0, 1000, network_share=0.25),
    ]  # fmt: skip
    file = {"application": "x", "trials": trials}
    (tmp_path / "g.json").write_bytes(msgspec.json.encode(file))
    fit = fit_samples(problem(flow(near={"share": 5})).workflow, tmp_path)["g"]
    # Run time follows the share alone, so that all runs are learned from.
    assert fit.unit.startswith("none")
    assert fit.samples == 4
    assert fit.best.network({"share": 8.0, "nodes": 1.0, "compute": 1.0}) > 0
    none = [trial(one, None) for one in (1.0, 2.0, 4.0)]
    (tmp_path / "g.json").write_bytes(msgspec.json.encode({"application": "x", "trials": none}))
    fit = fit_samples(problem(flow(near={"share": 5})).workflow, tmp_path)["g"]
    assert fit.samples == 3
    assert fit.best.data({"share": 3.0, "nodes": 1.0}) == pytest.approx(1.0)


def test_samples_over_nodes_tell_up_to_64_times_the_fewest(tmp_path):
    rows = [{"nodes": float(n), "time_s": 10 + 900.0 / n} for n in (1, 2, 4, 8)]
    samples = [
        {"attributes": {"nodes": row["nodes"]}, "utilisation": 0.9, "time_s": row["time_s"],
         "data_bytes": 1e9}
        for row in rows
    ]  # fmt: skip
    (tmp_path / "g.json").write_text(json.dumps(samples))
    for nodes, place, last in (
        ("1-500", "", 64), ("2-500", "", 128), ("1-9", "", 9), ("1-500", ", nodes: 3-7", 7),
    ):  # fmt: skip
        text = flow(near={}).replace("samples:", f"nodes: {nodes}, samples:")
        text = text.replace("{storage: s", "{storage: s" + place)
        made = problem(text, fits=fit_samples(problem(text).workflow, tmp_path))
        counts = made.runs.counts(made.workflow.tasks["g"], made.workflow.places["near"])
        assert counts[-1] == last
        assert counts[0] == max(int(nodes.partition("-")[0]), made.workflow.places["near"].low)
    # Without node counts among the attributes there is one: the fewest.
    planned(tmp_path, MHZ, near={"mhz": 500})
    text = flow(near={"mhz": 500}).replace("samples:", "nodes: 2-4, samples:")
    made = problem(text, fits=fit_samples(problem(text).workflow, tmp_path))
    assert made.runs.counts(made.workflow.tasks["g"], made.workflow.places["near"]) == [2]


def test_runs_of_one_node_count_are_planned_on_it(tmp_path):
    """They were planned on the fewest nodes of the place, as if those took as long."""
    trials = [with_fields(trial(share, 1000), nodes=4) for share in (1.0, 2.0, 4.0, 8.0)]
    (tmp_path / "g.json").write_bytes(msgspec.json.encode({"application": "x", "trials": trials}))
    made = problem(
        flow(near={"share": 4}), fits=fit_samples(problem(flow(near={})).workflow, tmp_path)
    )
    (plan, *_) = plans(made)
    assert (plan.schedule.steps[-1].nodes, plan.doubts) == (4, {})
    few = with_fields(made.workflow.places["near"], nodes=(1, 2))
    assert made.runs.counts(made.workflow.tasks["g"], few) == [2]
    made.runs.run(made.workflow.tasks["g"], few, 2, ())
    assert "nodes 2 is outside what was run, with 4" in str(
        made.runs.fits["g"].predict({"share": 4.0, "nodes": 2.0}).doubts
    )


def test_a_journal_says_how_its_runs_are_learned_from(tmp_path):
    """Data flow, the network's share and the form of 'nimo lab learn' were others."""
    model = ModelChoices(
        data_flow=False, network_share=0.5, form=FunctionForm.PAPER, faster=frozenset({"share"})
    )
    journal = Journal(tmp_path / "g.json", "x", model)
    for share in (1.0, 2.0, 4.0):
        journal.save(trial(share, round(1000 * share)))
    journal.save(with_fields(trial(9.0, 7), elapsed_s=1.0, purpose=Purpose.TEST))
    fit = fit_samples(problem(flow(near={"share": 5})).workflow, tmp_path)["g"]
    assert (fit.samples, fit.best.data({"share": 3.0, "nodes": 1.0})) == (3, 1.0)
    at = {"share": 3.0, "nodes": 1.0}
    assert fit.best.network(at) == fit.best.disk(at) > 0
    assert [str(term) for term in fit.best.compute.terms] == [
        str(one)
        for one in (
            transformation("nodes", frozenset()),
            transformation("share", frozenset({"share"})),
        )
    ]


def test_what_is_not_known_of_a_way_to_the_data_is_asked_for(tmp_path):
    """No latency was one of 0 s, which no model takes; no bandwidth was an endless one."""
    rows = [{LATENCY: 1e-3 * lat, "time_s": 100.0 + 50 * lat} for lat in (0.05, 1, 2, 8)]
    planned(tmp_path, rows, near={})
    text = (
        flow(near={})
        .replace(
            "storages: {s: {path: /s}}",
            "storages: {s: {path: /s, host: n}, t: {path: /t, host: n}}\n"
            "links: [{from: t, to: s, bandwidth: 100M}]",
        )
        .replace("at: s, size: 1M", "at: t, size: 500G, access: remote")
    )
    fits = fit_samples(problem(text).workflow, tmp_path)
    with pytest.raises(LookupError, match="no plan is possible"):
        plans(problem(text, fits=fits))
    given = plans(problem(text.replace("100M", "100M, latency: 2ms"), fits=fits))[0]
    assert given.end_s - NOW == pytest.approx(200.0, rel=0.05)
    none = plans(problem(text.replace("100M", "100M, latency: 0"), fits=fits))[0]
    assert none.end_s - NOW == pytest.approx(105.0, rel=0.05)
    # Two storages of one host: what a copy takes is not measured between hosts.
    for access in ("remote", "stage"):
        same = text.replace(", bandwidth: 100M", "").replace("remote", access)
        same = same.replace("samples: g.json", "run_time: 60")
        with pytest.raises(LookupError, match="give the bandwidth of t to s, s to t"):
            plans(problem(same))


def test_an_application_without_runs_has_no_history():
    with pytest.raises(NoHistory, match=r"tasks\.g: samples: no run of its application completed"):
        fit_history("g", [])
    sample = Sample({"nodes": 2.0}, Occupancies(1e-8, 0.0, 0.0, 1e9))
    assert fit_history("g", [sample]).predict({"nodes": 2.0}).time_s == pytest.approx(10.0)


def test_cpus_and_memory_are_chosen_within_a_node_and_asked_for(tmp_path):
    trials = [
        with_fields(
            trial(cpus, 1000), elapsed_s=30 + 4000 / cpus + 4e12 / memory, utilisation=0.9,
            attributes={"cpus": cpus, "memory": memory},
        )
        for cpus in (1.0, 2.0, 4.0, 8.0) for memory in (2.0**31, 2.0**33, 2.0**34)
    ]  # fmt: skip
    (tmp_path / "g.json").write_bytes(msgspec.json.encode({"application": "x", "trials": trials}))

    def options(*asked, **room):
        text = flow(near={}).replace("samples:", f"sbatch: [{', '.join(asked)}], samples:")
        made = on_site(text, tmp_path)
        made = replace(made, runs=replace(made.runs, room={"near": room}))
        (first, *_) = plans(made)
        assert first.doubts == {}
        return jobs(made.workflow, first.schedule, rooms={})[0].options

    assert {"--cpus-per-task=8", "--mem=16384M"} < set(options())
    assert {"--cpus-per-task=4", "--mem=8192M"} < set(options(cpus=4, memory=2**33))
    # What the task's own options say is not chosen, and the time is that with them.
    assert options("--mem=2G", "-c2")[-2:] == ("--mem=2G", "-c2")
    assert not [one for one in options("--mem=2G") if one.startswith("--mem=") and one[-1] == "M"]
    # sbatch refuses --mem beside --mem-per-cpu.
    of_cpus = options("--mem-per-cpu=512M", "-c4")
    assert not [one for one in of_cpus if one.startswith(("--mem=", "--cpus-per-task="))]
    slow, fast = (int(options(one)[2].partition("=")[2]) for one in ("-c1", "-c8"))
    assert slow > 2 * fast


def test_what_a_task_reads_is_its_input_size(tmp_path):
    """A model over input sizes was asked without one, or with that of the place."""
    rows = [{"input_bytes": b, "time_s": 20 + b / 1e6} for b in (1e8, 2e8, 4e8, 8e8)]
    samples = [
        {"attributes": {"input_bytes": row["input_bytes"]}, "utilisation": 0.9,
         "time_s": row["time_s"], "data_bytes": row["input_bytes"]}
        for row in rows
    ]  # fmt: skip
    (tmp_path / "g.json").write_text(json.dumps(samples))
    times = []
    for size in ("200M", "400M"):
        text = flow(near={}).replace("size: 1M", f"size: {size}")
        times.append(plans(on_site(text, tmp_path))[0].schedule.steps[-1].estimate.time_s)
    assert times == pytest.approx([20 + 200 * 1.048576, 20 + 400 * 1.048576], rel=0.05)
