"""Every field of a job on the wire decides something, or is named here with what reads it.

It is read where a job comes in: behind that there is its `Request`.
"""

import ast
import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from slurm_plugin.decision import service as service_module
from slurm_plugin.decision.submitted_job import submitted
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.protocol.request_messages import AllocationRequest, Job
from tests.slurm_plugin.decision.requests_of_all_shapes import SITES, requests, service
from tests.slurm_plugin.made import NOW

#: What no request of this site can show, with the test that does; or why nothing reads it.
SHOWN_BY = {
    "user_id": "slurm/test_limits.py: limits of a user without a name",
    "account": "slurm/test_snapshot.py: partitions for some accounts",
    "qos": "slurm/test_snapshot.py: limits of a QOS",
    "licenses": "slurm/test_snapshot.py: licences that are taken",
    "cpus_per_tres": "decision/test_eligibility_and_budget.py: CPUs of each GPU",
    "mem_per_tres": "decision/test_memory_need.py: memory of each GPU stays",
    "argv": "decision/test_split_runs.py: arguments that tell runs apart",
    "work_dir": "decision/test_split_runs.py: folders that tell runs apart",
    "export": "tests/sacct_ingest/runs/test_layout_and_attributes.py: variables that do",
    "inputs": "tests/end_to_end/test_inputs.py: predictions by size",
    "inputs_changed_s": "tests/predictor/tables/test_split.py: runs from before a change",
    "hook": "decision/test_sizes.py: old hooks",
    "components": "decision/test_het_jobs.py: what the other components ask for",
    "prefer": "decision/test_place_lever.py: who prefers nodes keeps to them",
    "places": "decision/test_place_lever.py: old hooks",
    "ticket": "decision/test_tickets.py",
    "named": "decision/test_tickets.py",
    "script_cut": "nothing: a script that was cut is read as far as it goes",
}
#: A value of each field that changes the decision about some request.
EXAMPLES = {
    "min_nodes": 4,
    "max_nodes": 4,
    "num_tasks": 6,
    "ntasks_per_node": 3,
    "ntasks_per_socket": 2,
    "cpus_per_task": 3,
    "min_cpus": 5,
    "max_cpus": 8,
    "min_mem_per_node": 100,
    "min_mem_per_cpu": 100,
    "tres_per_job": "gres/gpu:2",
    "tres_per_node": "gres/gpu:2",
    "tres_per_socket": "gres/gpu:1",
    "tres_per_task": "gres/gpu:1",
    "shared": 0,
    "features": "nowhere",
    "exc_nodes": "n[1-60]",
    "user_name": "mallory",
    "partition": "nowhere",
    "time_limit": 3,
    "name": "another",
    "time_min": 2,
    "begin_time": int(NOW) + 7200,
    "deadline": "now+2minutes",
    "array_inx": "0-9",
    "het_job_offset": 1,
    "dependency": "expand:7",
    "reservation": "maintenance",
    "req_nodes": "n1",
    "contiguous": 1,
    "segment_size": 4,
    "req_switch": 1,
    "input_text": "numberOfSubdomains 3",
    "comment": "nimo:off",
    "script": "#!/bin/sh\nmpirun -np 3 ./x\n",
    "node_sizes": True,
}


#: Modules that read a job as it is on the wire, to make a request of it or to hold it against one.
RESOLVING = {
    "decision/context_builder.py",
    "decision/eligibility.py",
    "decision/submitted_job.py",
    "decision/service.py",
    "decision/tickets.py",
    "slurm/job_request.py",
}


def test_what_decides_on_a_request_does_not_read_the_job_on_the_wire():
    package = Path(service_module.__file__).parents[1]
    modules = [*package.glob("decision/**/*.py"), *package.glob("slurm/**/*.py")]
    readers = {str(path.relative_to(package)) for path in modules if reads_jobs(path)}
    assert readers == RESOLVING


def reads_jobs(path):
    """Whether a module imports the wire's job, at its top or in a function."""
    imports = [one for one in ast.walk(ast.parse(path.read_text())) if type(one) is ast.ImportFrom]
    names = {(one.module, alias.name) for one in imports for alias in one.names}
    messages = "slurm_plugin.protocol.request_messages"
    return bool(names & {(messages, "Job"), ("slurm_plugin.protocol", "request_messages")})


def test_a_request_holds_no_more_of_a_job_than_it_says():
    """A job is an allocation request, too, and would pass for one with all of its other fields."""
    job = next(requests(0))
    assert type(submitted(job)["resources"]) is AllocationRequest


#: Fields of a job that nimo-advise alone fills.
NOT_OF_HOOKS = {"components", "cpus_per_tres", "inputs_changed_s"}


def test_hooks_send_each_field_of_a_job_and_write_each_of_a_change():
    """A field that their tables of fields lack is never asked about, or never set."""
    folder = Path(service_module.__file__).parents[1] / "lua"
    lines = [line for path in folder.glob("*.lua") for line in path.read_text().splitlines()]
    words = {word for line in lines for word in re.findall(r"\w+", line.partition("--")[0])}
    assert {*Job.__struct_fields__} - words == NOT_OF_HOOKS
    assert {*Change.__struct_fields__} <= words


def test_no_field_is_left_out():
    assert {*EXAMPLES, *SHOWN_BY} == {*Job.__struct_fields__}
    assert not {*EXAMPLES} & {*SHOWN_BY}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_field_decides_something(name):
    assert any(
        outcome(config, job, now_s)
        != outcome(config, replace(job, **{name: EXAMPLES[name]}), now_s)
        for seed, config in enumerate(SITES.values())
        for now_s, job in enumerate(requests(seed), start=int(NOW))
    )


def outcome(config, job, now_s):
    """What is decided and advised, without what is only copied into the record."""
    made = service(config)
    advice = made.advise(job, now_s=now_s)
    answer, row = made.submit(job, via="job_submit", now_s=now_s)
    copied = {"ticket", "message", "admin_comment", "decision_id"}
    said = {key: value for key, value in msgspec.to_builtins(answer).items() if key not in copied}
    decided = row and (
        row.action,
        row.reason,
        row.nodes,
        row.key,
        row.given_mem_mib,
        row.given_limit_s,
    )
    return (
        said,
        decided,
        advice.verdict,
        advice.nodes,
        advice.directive,
        advice.time_directive,
        advice.script_text,
    )
