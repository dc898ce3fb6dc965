"""Jobs that wait: why, and when they start; asked as the user who asks, for two seconds."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import NamedTuple

from predictor.waits.workload import LimitShares
from sacct_ingest.errors import JobRefused, NimoError, SlurmError
from sacct_ingest.text.admin_comment import parse
from slurm_plugin.cli.slurm_estimates import START, EstimateRequest
from slurm_plugin.cli.slurm_estimates import run as run_sbatch
from slurm_plugin.cli.slurm_questions import Patience, Questions, asking, waiting_ids
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.nimod import client
from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.reports.pending_text import PendingAnswer, answer_of, edit_row
from slurm_plugin.slurm import sources
from slurm_plugin.slurm.cluster_state import RawState
from slurm_plugin.slurm.job_edit import MOST_EDITS, Edit, offered
from slurm_plugin.slurm.limit_reasons import BindingLimit, binding_limit, job_limit, limit_reason
from slurm_plugin.slurm.limits import ASSOC_MGR
from slurm_plugin.slurm.pending_edits import OwnAccess, edits_of, qos_priorities, waits_for_turn
from slurm_plugin.slurm.pending_job import PendingJob, pending_jobs
from slurm_plugin.slurm.pending_reasons import Ends, explain_reason
from slurm_plugin.slurm.queue_facts import QueueFacts, facts_of, starts_after
from slurm_plugin.slurm.slurm_conf import CONFIG, SlurmConf, read_settings
from slurm_plugin.slurm.start_plan import StartPlan
from slurm_plugin.wait_forecasts.changed_starts import ChangedStarts, StartRange, compared
from slurm_plugin.wait_forecasts.forecasts import QueueRunTimes

#: Jobs that are explained at once.
MOST_JOBS = 20
#: Jobs of a page, and the first of them for which changes are looked for.
_ON_PAGE, _CHANGED_ON_PAGE = 10, 3
#: Seconds for changes of all of a user's jobs.
CHANGES_S = 0.8

_COMMAS = 3  #: between fields of a user's association
_PRIORITIES = ("sacctmgr", "-nP", "show", "qos", "format=Name,Priority")
#: What of the queue is asked whatever the release.
_PARTS = (sources.SINFO, sources.PARTITIONS, sources.RESERVATIONS, sources.LICENCES)
_CHANGES_DEVICES = (23, 2)  #: release from which Slurm changes types of devices in the queue
#: Reasons that time takes away, or the ends of other jobs.
_BY_ITSELF = frozenset({"BeginTime", "Reservation", "Dependency", "JobArrayTaskLimit"})


class Look(NamedTuple):
    """What Slurm and nimod said at one moment."""

    jobs: Sequence[PendingJob]
    settings: SlurmConf
    raw: RawState | None  #: None: Slurm did not show its queue
    assoc_mgr: str
    access: Sequence[Sequence[str]]  #: cluster, account, partition and QOS of their user
    priorities: str  #: of QOS
    waits: Waits  #: what nimod expects of them
    troubles: Mapping[str, str]  #: what was asked for, and why there is no answer
    now_s: float


def of_user(socket: str, user: str) -> list[PendingAnswer]:
    """Say why a user's jobs wait, to a page of that user; nothing where Slurm does not answer."""
    patience = Patience()
    try:
        ids = waiting_ids(patience, f"--user={user}")
        jobs = shown_jobs(ids[:_ON_PAGE], patience) if ids else []
    except SlurmError:
        return []
    own = [job for job in jobs if job.user == user]
    if not own:
        return []
    seen = look(own, socket, patience, with_edits=True)
    return answers(seen, patience, with_edits=_CHANGED_ON_PAGE, user=user)


def shown_jobs(job_ids: Sequence[int], patience: Patience) -> list[PendingJob]:
    """Ask Slurm for jobs; those that wait no more are left out.

    Raises SlurmError: it does not answer, or shows none of them.
    """
    texts = []
    troubles = []
    with asking() as pool:
        slurm = Questions(pool, patience, {})
        asked = [("scontrol", "show", "job", str(number)) for number in job_ids]
        for argv in asked:
            slurm.begin(argv)
        for argv in asked:
            try:
                texts.append(slurm.answer(argv))
            except SlurmError as error:
                troubles.append(error)
    if troubles and not texts:
        raise troubles[0]
    shown = {job.job_id: job for text in texts for job in pending_jobs(text)}
    # Slurm shows all components of a heterogeneous job with the first one's id.
    return [
        job for job in shown.values() if job.het_id in (None, job.job_id) or job.het_id not in shown
    ]


def _own_table(jobs: Sequence[PendingJob]) -> tuple[str, ...]:
    """Command that lists the accounts and QOS of the jobs' user."""
    where = ("where", f"user={jobs[0].user}") if jobs else ()
    return ("sacctmgr", "-nP", "show", "assoc", *where, "format=Cluster,Account,Partition,QOS")


def look(
    jobs: Sequence[PendingJob], socket: str, patience: Patience, *, with_edits: bool = False
) -> Look:
    """Ask Slurm and nimod what their reasons and starts follow from; what fails is left out.

    with_edits: also what changes of them follow from.
    """
    troubles: dict[str, str] = {}
    limited = any(limit_reason(job.reason) for job in jobs)
    own = _own_table(jobs)
    now_s = time.time()
    with asking() as pool:
        slurm = Questions(pool, patience, troubles)
        for argv in (CONFIG, *_PARTS, *((ASSOC_MGR, own) if limited else ())):
            slurm.begin(argv)
        expected = pool.submit(_waits, jobs, socket, patience)
        text = slurm.got("Slurm's configuration", CONFIG)
        settings = read_settings(text) if text else SlurmConf()
        by_qos = with_edits and settings.qos_weight > 0
        for argv in (_PRIORITIES, own) if by_qos else ():
            slurm.begin(argv)
        raw = None
        if text:
            raw = slurm.noted("the queue", lambda: sources.ask_text(slurm.answer, settings.release))
        assoc_mgr = slurm.got("limits", ASSOC_MGR) if limited else ""
        listed = slurm.got("your accounts and QOS", own) if limited or by_qos else ""
        access = [line.split("|") for line in listed.splitlines() if line.count("|") == _COMMAS]
        priorities = slurm.got("priorities of QOS", _PRIORITIES) if by_qos else ""
        waits = Waits()
        with suppress(NimoError):  # Slurm's plan stands in
            waits = expected.result()
    return Look(jobs, settings, raw, assoc_mgr, access, priorities, waits, troubles, now_s)


def _waits(jobs: Sequence[PendingJob], socket: str, patience: Patience) -> Waits:
    asked = [(job.job_id, -1) for job in jobs]
    return client.waits(socket, asked, timeout_s=max(patience.left_s, 0.01))


def answers(
    seen: Look,
    patience: Patience,
    *,
    with_edits: int = 0,
    most: int = MOST_EDITS,
    within_s: float = inf,
    user: str = "",
) -> list[PendingAnswer]:
    """Say of each job why it waits and when it starts.

    with_edits: of so many of them also what would start them sooner, for those who may change them.
    most: changes of each.
    within_s: seconds after which changes of no further job are looked for; the next to start come
        first.
    user: who reads it; empty: who runs this.
    """
    with patience.paused():
        made, found = _answers(seen, with_edits, within_s, user)
    chosen, trouble = agreed(found, most, patience)
    for number, checked in chosen.items():
        made[number].edits = [edit_row(edit) for edit in checked]
        if trouble:
            made[number].troubles.append(f"whether Slurm takes a change ({trouble})")
    return made


def _answers(
    seen: Look, with_edits: int, within_s: float, user: str
) -> tuple[list[PendingAnswer], dict[int, list[Edit]]]:
    """Give the answers, and by their numbers the changes that Slurm has not checked yet."""
    rows = {row.job_id: row for row in seen.waits.rows}
    facts = [facts_in(seen, job) for job in seen.jobs]
    made = []
    for job, known in zip(seen.jobs, facts, strict=True):
        one = _answer(job, known, seen, rows.get(job.job_id))
        one.may_change = job.user == user if user else os.geteuid() in (0, job.uid)
        made.append(one)
    asked = [number for number, one in enumerate(made[:with_edits]) if one.may_change]
    found: dict[int, list[Edit]] = {}
    until_s = time.monotonic() + within_s
    changed = changed_starts(seen, jobs=len(asked)) if asked else None
    for number in sorted(asked, key=lambda one: facts[one].ahead):
        if time.monotonic() > until_s:
            break
        job, one = seen.jobs[number], made[number]
        start, found[number] = edits(seen, job, facts[number], changed)
        one.looked = True
        if start is not None and (one.start_s is None or job.is_particular):
            one.start_s, one.low_s, one.high_s = start
    for one, known in zip(made, facts, strict=True):
        one.after = starts_after(known, one.start_s)
    return made, found


def _answer(job: PendingJob, facts: QueueFacts, seen: Look, row: WaitRow | None) -> PendingAnswer:
    answer = answer_of(job, explain_reason(job, facts))
    if row is not None:
        answer.start_s = row.start_s
        answer.low_s = row.low_s
        answer.high_s = row.high_s
    answer.troubles = [f"{name} ({why})" for name, why in seen.troubles.items()]
    return answer


def facts_in(seen: Look, job: PendingJob) -> QueueFacts:
    """Gather what a look says of a job."""
    if seen.raw is None:
        facts = QueueFacts(now_s=seen.now_s, seen=False)
    else:
        others = any(one.user != job.user for one in seen.raw.jobs)
        private = seen.settings.private and os.geteuid() != 0 and not others
        facts = facts_of(seen.raw, job, now_s=seen.now_s, private=private)
    if limit_reason(job.reason) is None:
        return facts
    binding = _binding(seen, job, facts)
    refused = "" if binding else seen.troubles.get("limits", "Slurm does not show it to you")
    return replace(facts, binding=binding, limits_refused=refused)


def _binding(seen: Look, job: PendingJob, facts: QueueFacts) -> BindingLimit | None:
    """Find the limit that a job's reason names."""
    limit = limit_reason(job.reason)
    if limit is None:
        return None
    parts = (facts.partitions[name].qos for name in job.partitions if name in facts.partitions)
    qos = tuple(dict.fromkeys(filter(None, (*parts, job.qos))))
    return binding_limit(seen.assoc_mgr, limit, job, qos)


def edits(
    seen: Look, job: PendingJob, facts: QueueFacts, changed: ChangedStarts | None
) -> tuple[StartRange | None, list[Edit]]:
    """Say when a job starts, and list what would start it sooner, the earliest start first.

    changed: None: the queue is not known.
    """
    plan = None
    if seen.raw is not None:
        plan = StartPlan(seen.raw, seen.settings, job, now_s=seen.now_s)
    note = parse(f" {job.note} ") if job.note else None
    reliable = note is not None and note.verdict == "reliable" and note.nodes == job.nodes
    predicted_s = float(note.high_s) if note is not None and reliable else None
    found = edits_of(job, facts, plan, _access(seen, job, facts), predicted_s=predicted_s)
    start = None
    if changed is not None and not facts.private:
        start, found = compared(job, found, changed, waits=_starts_by_itself(job, facts))
    return start, offered(found)


def agreed(
    found: Mapping[int, Sequence[Edit]], most: int, patience: Patience
) -> tuple[dict[int, list[Edit]], str]:
    """Choose the first changes of each job that Slurm takes, at most so many; in rounds.

    With it comes why Slurm did not answer for some of them; empty: it did.

    found: by the jobs' numbers.
    """
    made: dict[int, list[Edit]] = {number: [] for number in found}
    left = {number: list(edits) for number, edits in found.items()}
    troubles: dict[str, str] = {}
    check = partial(_checked, patience=patience, troubles=troubles)
    with asking() as pool:
        while True:
            asked = []
            for number, edits_left in left.items():
                lacking = most - len(made[number])
                asked += [(number, edit) for edit in edits_left[:lacking]]
                left[number] = edits_left[lacking:]
            if not asked:
                return made, troubles.get("sbatch", "")
            checks = pool.map(check, [edit for _, edit in asked])
            for (number, _), checked in zip(asked, checks, strict=True):
                made[number] += [checked] if checked is not None else []


def _starts_by_itself(job: PendingJob, facts: QueueFacts) -> bool:
    if explain_reason(job, facts).ends is Ends.NEVER:
        return False
    limited = job_limit(job.reason) is not None
    return waits_for_turn(job, facts) or limited or job.reason in _BY_ITSELF


def changed_starts(seen: Look, *, jobs: int = 1) -> ChangedStarts | None:
    """Run the queue forward by notes of jobs, and by the shares of limits that nimod tells.

    jobs: how many are looked at.
    """
    if seen.raw is None:
        return None
    run_times = QueueRunTimes(PredictionLookup)
    run_times.remember(LimitShares(site=tuple(seen.waits.limit_shares)))
    return ChangedStarts(seen.raw, seen.settings, run_times, now_s=seen.now_s, jobs=jobs)


def _access(seen: Look, job: PendingJob, facts: QueueFacts) -> OwnAccess:
    """Tell what the job's user may name instead."""
    mine = [row for row in seen.access if seen.settings.cluster in ("", row[0])]
    own = [row for row in mine if row[1] == job.account and row[2] in ("", *job.partitions)]
    names = (name for row in own for name in row[3].split(",") if name)
    qos = tuple(name for name in dict.fromkeys(names) if name != job.qos)
    return OwnAccess(
        qos=qos,
        changes_devices=seen.settings.release >= _CHANGES_DEVICES,
        priorities=qos_priorities(job, qos, seen.priorities, seen.settings.qos_weight),
        accounts=tuple(dict.fromkeys(row[1] for row in mine if row[1] != job.account)),
        binding=lambda made: _binding(seen, made, facts),
    )


def _checked(edit: Edit, patience: Patience, troubles: dict[str, str]) -> Edit | None:
    """Ask Slurm itself whether it takes the job so; None: it refuses it."""
    job = edit.job
    if job.uid != os.getuid():
        return edit  # others have other limits
    asked = EstimateRequest(test_options(job), text="#!/bin/sh\n")
    try:
        timeout_s = patience.timeout_s(asked.argv())
        said = run_sbatch(asked.argv(), asked.text, environ=os.environ, timeout_s=timeout_s)
    except JobRefused:
        return None
    except SlurmError as error:
        troubles.setdefault("sbatch", str(error))
        return edit
    found = START.search(said)
    return replace(edit, agreed=True, slurm_s=float(found[1]) if found else None)


def test_options(job: PendingJob) -> tuple[str, ...]:
    """Options of sbatch that ask for what a job asks for."""
    given = {
        "--job-name": job.name,
        "--partition": ",".join(job.partitions),
        "--account": job.account,
        "--qos": job.qos,
        "--nodes": f"{job.nodes}-{job.max_nodes}" if job.max_nodes else f"{job.nodes}",
        "--ntasks": "" if job.exclusive else f"{job.cpus}",
        "--time": f"{max(int(job.limit_s // 60), 1)}" if job.limit_s else "",
        "--mem": f"{job.mem_node_mib}M" if job.mem_node_mib else "",
        "--mem-per-cpu": f"{job.mem_cpu_mib}M" if job.mem_cpu_mib else "",
        "--constraint": job.features,
        "--nodelist": job.node_list,
        "--exclude": job.excluded,
        "--licenses": ",".join(f"{name}:{n}" for name, n in job.licences.items()),
        "--reservation": job.reservation,
        **job.device_options,
    }
    options = [f"{name}={value}" for name, value in given.items() if value]
    return (*options, "--exclusive") if job.exclusive else tuple(options)
