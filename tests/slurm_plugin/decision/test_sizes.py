"""Jobs whose size is a number of CPUs, tasks or GPUs: advised on, and changed where a tag asks."""

from dataclasses import replace

import pytest

from predictor.memory import UNBOUNDED, Memory, MemoryNeed, MemoryTerm
from sacct_ingest.runs.layout import Each, Layout, Unit
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import OptIn, SizesRule
from slurm_plugin.decision.memory_need import memory_to_ask
from slurm_plugin.decision.sized_supply import sized_supply
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import HookLevel
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool
from slurm_plugin.slurm.partition_view import partition_for
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.decision.test_chances import outlook
from tests.slurm_plugin.made import NOW, cluster, job, partition, table
from tests.slurm_plugin.reports.rows import advised

THREADS = Layout(1, each=Each.JOB, nodes=1)
TASKS = Layout(cpus=2, each=Each.TASK, nodes=1)
DEVICES = Layout(cpus=4, gpus=None, each=Each.GPU, nodes=1)
#: A node that is idle, and one with four CPUs and one GPU free for now.
FREE = NodeGroup(
    cpus=16, mem_mib=16_000, gres=(("gpu", 4),), steps=((NOW, 16, 16_000, (("gpu", 4),)),)
)
BUSY = NodeGroup(
    cpus=16,
    mem_mib=16_000,
    gres=(("gpu", 4),),
    steps=((NOW, 4, 4_000, (("gpu", 1),)), (NOW + 3600, 16, 16_000, (("gpu", 4),))),
)


def look(*groups, **fields):
    names = {one: tuple(f"n{i}{letter}" for letter in "abcd") for i, one in enumerate(groups)}
    pool = NodePool(now_s=NOW, groups=names)
    own = {
        "nodes": 4 * len(groups),
        "node_cpus": 16,
        "node_mem_bytes": 16_000 * 2**20,
        "pool": pool,
    }
    return cluster(partition(**own | {"mem_cpu_mib": 500} | fields))


def sized(layout=THREADS, unit=Unit.CPUS, **fields):
    return table(unit=unit, layout=layout, key="alice/solve", **fields)


def one_node(**fields):
    return job(**{"min_nodes": None, "max_nodes": None} | fields)


def advice(request, *, tables=None, where=None, **settings):
    made = advisor(tables=tables or [sized()], look=where or look(FREE), **settings)
    return made.advise(request, now_s=NOW)


def test_a_job_on_one_node_is_advised_over_its_cpus():
    reported = advice(one_node(cpus_per_task=4, min_cpus=4))
    assert reported.unit is Unit.CPUS
    assert [row.nodes for row in reported.rows] == list(range(1, 17))  # those of a node
    best = next(row for row in reported.rows if row.recommended)
    assert reported.directive == f"#SBATCH --cpus-per-task={best.nodes}"
    assert best.node_hours == pytest.approx(best.nodes * (100 + 3600 / best.nodes) / 3600)


def test_waits_are_those_for_so_many_cpus_on_a_node():
    reported = advice(one_node(cpus_per_task=4, min_cpus=4), where=look(BUSY))
    waits = {row.nodes: row.wait_s for row in reported.rows}
    assert (waits[4], waits[5]) == (0.0, 3600.0)


def test_a_job_does_not_grow_beyond_a_quarter_of_what_is_free():
    reported = advice(one_node(cpus_per_task=4, min_cpus=4), where=look(FREE))
    assert reported.nodes > 4  # of 64
    crowded = advice(one_node(cpus_per_task=4, min_cpus=4), where=look(BUSY))
    assert crowded.nodes <= 4  # of 16


def test_tasks_are_advised_where_runs_differed_in_them():
    reported = advice(one_node(num_tasks=4, cpus_per_task=2, min_cpus=8), tables=[sized(TASKS)])
    best = next(row for row in reported.rows if row.recommended)
    assert reported.directive == f"#SBATCH --ntasks={best.nodes // 2}"
    assert all(row.nodes % 2 == 0 for row in reported.rows)


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ({"tres_per_job": "gres/gpu:2"}, "--gpus="),
        ({"tres_per_node": "gres/gpu:a100:2"}, "--gpus-per-node=a100:"),
        ({"tres_per_task": "gres/gpu:2", "num_tasks": 1}, "--gpus-per-task="),
        ({"tres_per_task": "cpu=8,gres/gpu=2", "num_tasks": 1}, "--gpus-per-task="),
    ],
)
def test_gpus_are_advised_with_the_cpus_that_go_with_them(field, option):
    made = sized(DEVICES, Unit.GPUS, nodes=[1, 2, 3, 4], observed=[1, 2, 4])
    reported = advice(one_node(**field, cpus_per_task=8, min_cpus=8), tables=[made])
    assert reported.unit is Unit.GPUS
    assert [row.nodes for row in reported.rows] == [1, 2, 3, 4]
    assert reported.nodes == 4
    assert reported.directive == f"#SBATCH {option}4 --cpus-per-task=16"


def test_an_array_is_advised_on_each_of_its_tasks():
    assert advice(one_node(cpus_per_task=4, min_cpus=4, array_inx="0-9")).nodes is not None


def test_other_tasks_than_the_runs_had_are_another_curve():
    reported = advice(one_node(num_tasks=4, min_cpus=4))
    assert (reported.nodes, reported.verdict) == (None, "refused")


TAGGED = {"comment": "nimo:cpus=4-16", "cpus_per_task": 4, "min_cpus": 4}


def test_a_tag_lets_the_cpus_of_a_task_be_chosen():
    answer, row = submit(advisor(tables=[sized()], look=look(FREE)), one_node(**TAGGED))
    assert 4 < row.nodes <= 16
    assert answer.set == Change(cpus_per_task=row.nodes, min_cpus=row.nodes)
    assert answer.message == f"nimo: this job runs on {row.nodes} CPUs instead of 4"
    assert (row.unit, row.requested_nodes) == ("cpus", 4)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"comment": ""}, Reason.FIXED_CPUS),
        ({"comment": "nimo:nodes=1-4"}, Reason.FIXED_CPUS),
        ({"comment": "nimo:cpus=4-16 nimo:off"}, Reason.OPTED_OUT),
        ({"script": ""}, Reason.INTERACTIVE),
        ({"array_inx": "0-9"}, Reason.ARRAY),
        ({"reservation": "r"}, Reason.RESERVATION),
        ({"deadline": "sometime"}, Reason.DEADLINE_UNREADABLE),
    ],
)
def test_other_jobs_keep_their_cpus(fields, reason):
    answer, _ = submit(advisor(tables=[sized()], look=look(FREE)), one_node(**TAGGED | fields))
    assert (answer.action, answer.reason) == ("keep", reason)


def test_a_job_that_names_no_cpus_gets_the_least_that_its_tag_offers_or_more():
    request = one_node(comment="nimo:cpus=4-8")
    answer, row = submit(advisor(tables=[sized()], look=look(FREE)), request)
    assert answer.set.cpus_per_task == row.nodes >= 4


def test_a_tag_on_tasks_changes_tasks_and_those_on_each_node():
    request = one_node(
        comment="nimo:tasks=2-8",
        min_nodes=1, max_nodes=1, num_tasks=2, ntasks_per_node=2, cpus_per_task=2, min_cpus=4,
    )  # fmt: skip
    answer, row = submit(advisor(tables=[sized(TASKS)], look=look(FREE)), request)
    tasks = row.nodes // 2
    assert tasks > 2
    assert answer.set == Change(num_tasks=tasks, ntasks_per_node=tasks, min_cpus=2 * tasks)


@pytest.mark.parametrize(
    ("field", "own", "begin"),
    [
        ("tres_per_node", "gres/gpu:1", "gres/gpu:"),
        ("tres_per_node", "gres/gpu:a100", "gres/gpu:a100:"),
        ("tres_per_task", "cpu=4,gres/gpu=1", "cpu=4,gres/gpu="),
    ],
)
def test_a_tag_on_gpus_changes_gpus(field, own, begin):
    layout = replace(DEVICES, gpu_type="a100" if "a100" in own else "")
    made = sized(layout, Unit.GPUS, nodes=[1, 2, 3, 4], observed=[1, 2, 4])
    request = one_node(
        comment="nimo:gpus=1-4", cpus_per_task=4, min_cpus=4, num_tasks=1, **{field: own}
    )
    answer, row = submit(advisor(tables=[made], look=look(FREE)), request)
    assert row.nodes > 1
    assert getattr(answer.set, field) == f"{begin}{row.nodes}"
    assert answer.set.cpus_per_task == 4 * row.nodes


def test_no_size_is_chosen_whose_memory_is_too_little():
    # A job gets 500 MiB for each CPU; its runs needed 4,900.
    made = sized(memory=(Memory(16, 4900 * 2**20),))
    request = one_node(**TAGGED | {"comment": "nimo:cpus=2-16", "cpus_per_task": 16})
    where = look(FREE, queue=500)
    row = submit(advisor(tables=[made], look=where), request)[1]
    assert submit(advisor(tables=[sized()], look=where), request)[1].nodes < 12
    assert row.nodes == 12  # 1.2 times as much


def test_observe_mode_changes_nothing():
    made = advisor(tables=[sized()], look=look(FREE), mode=Mode.OBSERVE)
    answer, row = submit(made, one_node(**TAGGED))
    assert (answer.action, row.action) == ("keep", "set")


def test_runs_on_cpus_alone_choose_nodes_for_a_job_that_leaves_them_open():
    made = table(
        unit=Unit.CPUS,
        layout=Layout(each=Each.ANY),
        nodes=[16, 32, 64, 128, 256],
        observed=[16, 32, 64],
        time_of=lambda n: 100 + 57_600 / n,
    )
    request = job(ntasks_per_node=16, min_cpus=16, max_nodes=8)
    where = look(
        *(NodeGroup(cpus=16, mem_mib=16_000 + i, steps=((NOW, 16, 16_000, ()),)) for i in range(8))
    )
    answer, row = submit(advisor(tables=[made], look=where), request)
    assert (row.unit, answer.set.min_nodes) == ("nodes", row.nodes)


FIXED = "#!/bin/sh\nexport OMP_NUM_THREADS=8\n./solve\n"


def test_advice_says_what_the_script_fixes_itself():
    reported = advice(one_node(cpus_per_task=4, min_cpus=4, script=FIXED))
    assert reported.script_text == (
        "The script says OMP_NUM_THREADS=8: it does not follow the option, so change it, too."
    )
    assert reported.script_text in advised(reported, now_s=NOW, width=200)
    assert advice(one_node(cpus_per_task=4, min_cpus=4)).script_text == ""


def test_advice_does_not_ask_for_what_the_script_says_already():
    best = advice(one_node(cpus_per_task=4, min_cpus=4)).nodes
    for threads, change in ((best, False), (best + 1, True)):
        script = FIXED.replace("=8", f"={threads}")
        reported = advice(one_node(cpus_per_task=4, min_cpus=4, script=script))
        assert reported.nodes == best
        assert bool(reported.script_text) is change


def test_a_size_that_the_script_fixes_is_not_changed():
    made = advisor(tables=[sized()], look=look(FREE))
    answer, _ = submit(made, one_node(**TAGGED | {"script": FIXED}))
    assert (answer.action, answer.reason) == ("keep", Reason.FIXED_BY_SCRIPT)
    tasks = FIXED.replace("export OMP_NUM_THREADS=8", "mpirun -np 8 ./x")
    assert submit(made, one_node(**TAGGED | {"script": tasks}))[0].action == "set"


@pytest.mark.parametrize(
    ("count", "reason"), [("2", Reason.FIXED_BY_SCRIPT), ("$N", Reason.CHEAPEST)]
)
def test_a_script_that_fixes_its_nodes_keeps_them(count, reason):
    script = f"#!/bin/sh\ntorchrun --nnodes={count} --nproc-per-node=4 train.py\n"
    assert submit(advisor(), job(script=script))[0].reason == reason


NEEDED = tuple(Memory(n, (1000 + 100 * n) * 2**20) for n in (1, 2, 4, 8, 16))


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"min_mem_per_node": 8000}, "#SBATCH --mem=3200M"),  # 2600 MiB times 1.2
        ({"min_mem_per_node": 3500}, ""),
        ({"min_mem_per_node": 3000}, "#SBATCH --mem=2200M"),  # on eight CPUs
        ({"min_mem_per_node": 1600}, "#SBATCH --mem=1700M"),  # on four
        ({"min_mem_per_cpu": 4000}, "#SBATCH --mem-per-cpu="),
    ],
)
def test_the_memory_to_ask_for_is_the_most_that_such_runs_needed_and_a_margin(fields, line):
    reported = advice(
        one_node(cpus_per_task=4, min_cpus=4, **fields), tables=[sized(memory=NEEDED)]
    )
    assert reported.memory_directive.startswith(line)
    assert bool(reported.memory_directive) is bool(line)
    assert reported.memory_directive in advised(reported, now_s=NOW, width=200)


@pytest.mark.parametrize(
    ("asked", "allowed"), [({"min_mem_per_node": 1600}, 1650), ({"min_mem_per_cpu": 4000}, 3100)]
)
def test_no_memory_is_named_that_the_partition_does_not_allow(asked, allowed):
    request = one_node(cpus_per_task=4, min_cpus=4, **asked)
    lines = [
        advice(request, tables=[sized(memory=NEEDED)], where=look(FREE, max_mem_node_mib=most))
        for most in (20_000, allowed)
    ]
    assert [bool(one.memory_directive) for one in lines] == [True, False]


def test_a_job_that_has_what_its_runs_need_is_not_advised_more_for_round_numbers():
    little = tuple(Memory(n, 10 * 2**20) for n in (1, 2, 4, 8, 16))
    request = one_node(cpus_per_task=4, min_cpus=4, min_mem_per_node=50)
    assert advice(request, tables=[sized(memory=little)]).memory_directive == ""


def test_no_memory_is_named_where_runs_had_too_little():
    short = (*NEEDED[:2], Memory(4, UNBOUNDED), Memory(8, UNBOUNDED), Memory(16, UNBOUNDED))
    request = one_node(cpus_per_task=4, min_cpus=4, min_mem_per_node=8000)
    reported = advice(request, tables=[sized(memory=short)])
    assert reported.memory_directive == ""
    few = advice(request, tables=[sized(memory=NEEDED, runs=2)])
    assert few.memory_directive == ""


def test_an_older_hook_writes_no_size_and_is_sent_none():
    """It would write the limit of a size that it ignores."""
    request = one_node(**TAGGED, hook=HookLevel.COUNTS)
    answer, _ = submit(advisor(tables=[sized()], look=look(FREE)), request)
    assert (answer.action, answer.reason) == ("keep", Reason.OLD_HOOK)


@pytest.mark.parametrize(
    ("rule", "comment", "low", "high"),
    [
        ({"cpus": "4-8"}, "", 4, 8),
        ({"cpus": "4-8"}, "nimo:cpus=9-16", 9, 16),  # the user's own goes first
        ({"cpus": "4-8", "user": "bob"}, "", 4, 4),
        ({"tasks": "8-16"}, "", 4, 4),  # its runs differed in CPUs
        ({"cpus": "8-16"}, "nimo:off", 4, 4),
    ],
)
def test_a_rule_of_the_site_lets_sizes_be_chosen(rule, comment, low, high):
    opt_in = OptIn(rules=(SizesRule(**rule),))
    made = advisor(tables=[sized()], look=look(FREE), opt_in=opt_in)
    _, row = submit(made, one_node(**TAGGED | {"comment": comment}))
    assert low <= row.nodes <= high


def due(left_s, **fields):
    """Submit a job on four CPUs that cannot be given others, with a deadline."""
    where = look(FREE, outlook=outlook(lambda *_: [0.0] * 40))
    request = one_node(
        **TAGGED
        | {"reservation": "r", "deadline": f"uts{NOW + left_s:.0f}", "time_limit": 10}
        | fields
    )
    return submit(advisor(tables=[sized()], look=where), request)


def test_another_size_or_a_later_deadline_may_make_it():
    answer, row = due(800)  # 1000 s on four CPUs, 460 on ten
    assert (row.unit, row.reason) == ("cpus", Reason.DEADLINE_MISSED)
    assert "on 4 CPUs, it runs for 17 min, " in answer.message
    assert "would make it: 7 CPUs --time=00:12:00 (99 %) or --deadline=" in answer.message
    assert "--nodes" not in answer.message


def test_a_deadline_that_no_size_of_the_tag_makes_may_be_later():
    answer, _ = due(200)
    assert "would make it: --deadline=" in answer.message
    # One that is made is not talked about.
    assert "deadline" not in due(3000)[0].message


@pytest.mark.parametrize(
    ("needed", "line"), [(3600, "#SBATCH --mem=3600M"), (1000, "#SBATCH --mem=1000M")]
)
def test_the_memory_to_ask_for_is_what_a_new_run_is_to_be_given(needed, line):
    """The room is in it: neither a margin nor the highest need of all is added."""
    high = tuple(Memory(one.nodes, needed * 2**20) for one in NEEDED)
    recorded = sized(memory=NEEDED, need=MemoryNeed(30, 27, 27, 0.0, high))
    request = one_node(cpus_per_task=4, min_cpus=4, min_mem_per_node=8000)
    assert advice(request, tables=[recorded]).memory_directive == line


@pytest.mark.parametrize(
    ("comment", "line"),
    [
        ("nimo:size=50", "#SBATCH --mem=1500M"),
        ("nimo:size=200", "#SBATCH --mem=5000M"),  # twice the largest that ran
        ("", "#SBATCH --mem=3000M"),
        ("nimo:size=1k", ""),  # no less than is asked for
    ],
)
def test_a_job_that_names_a_size_is_told_the_memory_of_that_size(comment, line):
    def on_each(mib):
        return tuple(Memory(one.nodes, mib * 2**20) for one in NEEDED)

    term = MemoryTerm("size", fixed=0.2, power=1.0, reference=50.0, low=10.0, high=100.0)
    need = MemoryNeed(
        30, 27, 27, high=on_each(3000), terms=(term,), sized=on_each(1380), same=(((50.0,), 1.08),)
    )
    request = one_node(cpus_per_task=4, min_cpus=4, min_mem_per_node=8000, comment=comment)
    told = advice(request, tables=[sized(memory=NEEDED, need=need)])
    assert told.memory_directive == line


def test_on_other_nodes_a_job_needs_what_it_needs_on_its_own_count_and_fewer_share_it_out():
    one = table(asked=8, memory=(Memory(8, 2**30),))
    assert [memory_to_ask(one, n, margin=1.0) for n in (4, 8, 16)] == [2100, 1100, 1100]


@pytest.mark.parametrize(
    ("script", "argv", "multiple"),
    [("echo KPAR=3 >> INCAR", [], 6), ("vasp $@", ["job.sh", "--kpar", "3"], 6), ("vasp", [], 2)],
)
def test_tasks_are_multiples_of_the_groups_that_the_job_parts_them_into(script, argv, multiple):
    request = one_node(
        num_tasks=2, cpus_per_task=2, min_cpus=4, script=f"#!/bin/sh\n{script}\n", argv=argv
    )
    reported = advice(request, tables=[sized(TASKS)])
    assert {row.nodes % multiple for row in reported.rows} == {0}
    assert ("only multiples of 3 tasks" in reported.script_text) is (multiple == 6)
    tagged = {"comment": "nimo:tasks=2-8", "script": request.script, "argv": argv}
    where = one_node(num_tasks=3, cpus_per_task=2, min_cpus=6, **tagged)
    answer, _ = submit(advisor(tables=[sized(TASKS)], look=look(FREE)), where)
    assert (answer.set.num_tasks * 2) % multiple == 0


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"script": "#!/bin/sh\n#SBATCH --segment=4\nx\n"}, {4, 8, 12, 16}),
        ({"script": "#!/bin/sh\necho NPAR=8 >> INCAR\n", "ntasks_per_node": 2}, {4, 8, 12, 16}),
        ({"script": "#!/bin/sh\necho NPAR=8 >> INCAR\n", "ntasks_per_node": 8}, {*range(1, 17)}),
        ({"script": "#!/bin/sh\n#SBATCH --segment=4000000000000\nx\n"}, {*range(1, 17)}),
    ],
)
def test_node_counts_are_those_that_the_script_can_use(fields, counts):
    made = table(layout=Layout(fields.get("ntasks_per_node", 1)))
    reported = advice(job(max_nodes=16, min_nodes=1, **fields), tables=[made], where=cluster())
    assert {row.nodes for row in reported.rows} <= counts
    assert {row.nodes for row in reported.rows} & {4, 8}


def test_an_input_file_fixes_the_tasks_of_an_advice():
    script = "#!/bin/sh\nsrun solver\n"
    sizes = {"num_tasks": 2, "cpus_per_task": 2, "min_cpus": 4}
    request = one_node(**sizes, script=script, input_text="numberOfSubdomains 2")
    reported = advice(request, tables=[sized(TASKS)])
    assert reported.script_text.startswith("An input file says numberOfSubdomains 2: it does not")


@pytest.mark.parametrize(
    ("fields", "layout", "text"),
    [
        ({"num_tasks": 2, "cpus_per_task": 2}, TASKS, "6 tasks with 2 CPUs each have 12 CPUs."),
        ({"cpus_per_task": 4, "array_inx": "0-9"}, THREADS, "The numbers are those of one task of"),
        ({"cpus_per_task": 4}, THREADS, ""),
    ],
)
def test_advice_says_what_a_size_is_made_of(fields, layout, text):
    reported = advice(one_node(min_cpus=8, **fields), tables=[sized(layout)])
    assert reported.size_text.startswith(text)
    assert bool(reported.size_text) is bool(text)
    assert reported.size_text in advised(reported, now_s=NOW, width=200)


GPU = {"tres_per_node": "gres/gpu:1", "cpus_per_task": 4}


@pytest.mark.parametrize(
    ("learned", "fields", "total"), [(sized(), {}, 64), (sized(DEVICES, Unit.GPUS), GPU, 16)]
)
def test_the_price_counts_the_cpus_or_gpus_of_all_nodes(learned, fields, total):
    """A node is shared: one of its sixteen CPUs holds up others by a sixteenth of it."""
    whole = look(FREE).partitions["batch"]
    assert whole.nodes == 4
    request = one_node(**{"cpus_per_task": 1} | fields)
    made = sized_supply(request, learned, (1, 2, 4), lambda _job: whole, own=1, margin=1.2)
    assert made.total == total


@pytest.mark.parametrize(("waiting", "fewer"), [(0, False), (40, True)])
def test_a_queue_makes_cpus_dear(waiting, fewer):
    request = one_node(
        cpus_per_task=1, min_cpus=1, comment="nimo:cpus=1-16", script="#!/bin/sh\n./x\n"
    )
    made = advisor(tables=[sized(THREADS)], look=look(FREE, queue=waiting))
    _, row = submit(made, request)
    assert (row.nodes < 12) is fewer


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"ntasks_per_node": 4}, 0.25),
        ({"ntasks_per_node": 1, "tres_per_node": "gres/gpu:2"}, 0.5),
        ({"ntasks_per_node": 1, "min_mem_per_node": 12_000}, 0.75),
        ({"ntasks_per_node": 4, "shared": 0}, 1.0),
    ],
)
def test_a_range_of_nodes_is_charged_for_what_it_takes_of_each(fields, part):
    """Others can use the rest: a queue makes such nodes less dear."""
    request = job(min_nodes=1, max_nodes=4, num_tasks=None, **fields)
    assert partition_for(look(FREE), request).node_part == part


def test_the_price_of_part_of_a_node_is_that_part():
    counts = []
    for tasks in (1, 16):
        made = advisor(tables=[table(layout=Layout(gpus=None))], look=look(FREE, queue=4))
        request = job(min_nodes=1, max_nodes=4, ntasks_per_node=tasks, min_cpus=tasks)
        _, row = submit(made, request)
        counts.append(row.nodes)
    assert counts[0] > counts[1]
