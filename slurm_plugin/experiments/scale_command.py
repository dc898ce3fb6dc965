"""``nimo scale``: make a scaling study of a job script with the fewest runs."""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import ConfigError, NimoError, NoHistory, PlotError, ScriptError
from sacct_ingest.text.durations import duration_text
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.text.formatting import count, hours, wrapped
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from slurm_plugin.experiments.scale.study import Settings, Study, StudyRun

_FILE = "study.json"
_MINUTES = 30.0  #: time limit of a run


def run(args: argparse.Namespace) -> int:
    """Make the study, and print its table and paragraph."""
    from sacct_ingest.files.atomic_file import alone  # noqa: PLC0415
    from slurm_plugin.experiments.campaign import spent  # noqa: PLC0415
    from slurm_plugin.experiments.scale.study import Study  # noqa: PLC0415 - scipy

    folder = _folder(args)
    if args.resume or args.dry_run:
        path = folder / _FILE
        study = Study(path, None if args.resume else _settings(args))
        if args.dry_run:
            print(_design(study, as_json=args.json))
            return 0
    else:
        settings = _settings(args)
        path = folder / _FILE
        if path.exists():
            if any(one.job_id or not one.ended for one in Study(path).runs):
                said = "--resume goes on, --directory: another one"
                raise ConfigError(f"{folder} holds a study; {said}")
            path.unlink()  # no job was ever submitted
        folder.mkdir(parents=True, exist_ok=True)
        study = Study(path, settings)
    with alone(folder / _FILE, program="'nimo scale'", fix="name another folder"):
        why = _existing(study, args) if args.existing else _follow(study, args)
    from slurm_plugin.experiments.scale import results as made  # noqa: PLC0415
    from slurm_plugin.experiments.scale import study_folder  # noqa: PLC0415

    results = made.results_of(study)
    used = spent(study.runs)
    word = study.settings.sizes.word
    if args.json:
        print(made.as_json(results, why, used))
    else:
        width = terminal_width()
        print(made.table(results).text(width=width))
        good = count(sum(one.good for one in study.runs), "run")
        print(f"\n{why}: {good}, {hours(used)} {word}-hours\n")
        print(wrapped(made.proposal(results), width))
    plot = ", plot" if results.measured else ""
    try:
        study_folder.write(results, folder)
    except PlotError as error:
        plot = ""
        print(f"nimo scale: no plot: {error}", file=sys.stderr)
    if not args.json:
        print(f"\n{folder}: table{plot}, paragraph and job ids")
    return 0 if results.answer else NoHistory.exit_status


def _follow(study: "Study", args: argparse.Namespace) -> str:
    from slurm_plugin.cli import own_history  # noqa: PLC0415
    from slurm_plugin.experiments.campaign import Campaign, tell  # noqa: PLC0415

    if study.ended:
        return study.ended
    campaign = Campaign.of_command(study, lambda run: tell(_line(run)), leave=args.leave)
    why = campaign.follow()
    study.end(why)
    if not any(run.job_id for run in study.runs):
        return why
    try:
        own_history.ask_again(load_config(args, for_user=True))
    except NimoError as error:  # the study is made, and its results are shown
        tell(f"nimo scale: your own history may lack these runs for some minutes: {error}")
    return why


def _line(run: "StudyRun") -> str:
    what = f"{run.count}: job {run.job_id}" if run.job_id else f"{run.count}:"
    return f"{what} {run.reason or (duration_text(run.elapsed_s) if run.ended else run.why)}"


def _design(study: "Study", *, as_json: bool) -> str:
    from slurm_plugin.experiments.campaign import Design, spent  # noqa: PLC0415

    run = study.next(time.time())
    settings = study.settings
    design = Design(
        found=f"counts: {', '.join(map(str, settings.counts))}",
        left=settings.budget - spent(study.runs),
        word=settings.sizes.word,
        also={"counts": settings.counts},
    )
    if run is None or isinstance(run, str):
        design = replace(design, why=run or "runs are under way")
    else:
        design = replace(
            design,
            next={"count": run.count},
            what=str(run.count),
            why=run.why,
            argv=study.command(run)[0],
            reserved=run.hours,
        )
    return design.json() if as_json else design.text()


def _existing(study: "Study", args: argparse.Namespace) -> str:
    """Take the runs of the script from the user's own accounting."""
    from sacct_ingest.records import CURVE_LEVELS  # noqa: PLC0415
    from sacct_ingest.scripts.signature import identity_of_request  # noqa: PLC0415
    from slurm_plugin.cli import own_history  # noqa: PLC0415
    from slurm_plugin.cli.sbatch_request import request  # noqa: PLC0415
    from slurm_plugin.experiments.scale.study import StudyRun, as_ended  # noqa: PLC0415
    from slurm_plugin.store_access import open_store  # noqa: PLC0415

    job = request(study.settings.words, user="")
    identity = identity_of_request(
        user=job["user_name"],
        name=job["name"],
        comment=job.get("comment", ""),
        script=job["script"],
        argv=job["argv"],
        work_dir=job["work_dir"],
    )
    keys = [(level, key) for level in CURVE_LEVELS if (key := identity.key(level))]
    config = own_history.refreshed(load_config(args, for_user=True), keys, program="nimo scale")
    with open_store(config) as store:
        found = {run.run_id: run for level, key in keys for run in store.runs.of_key(level, key)}
    for number, run in enumerate(sorted(found.values(), key=lambda one: one.submit_s), 1):
        n = study.settings.sizes.size_of(run)
        if n in study.settings.counts and run.state == "COMPLETED":
            one = StudyRun(
                number=number,
                count=n,
                why="in the accounting",
                planned_s=run.submit_s,
                job_id=run.job_id,
            )
            study.save(as_ended(one, run))
    if not study.runs:
        raise NoHistory(
            f"the accounting has no run of {study.settings.script} on these counts; without "
            "--existing they are made"
        )
    study.end("from the accounting")
    return study.ended


def _settings(args: argparse.Namespace) -> "Settings":
    from sacct_ingest.runs.layout import Unit  # noqa: PLC0415
    from sacct_ingest.scripts.job_script import parse_command_line  # noqa: PLC0415
    from slurm_plugin.experiments import held_jobs  # noqa: PLC0415
    from slurm_plugin.experiments.scale.study import Settings  # noqa: PLC0415

    script = parse_command_line(["sbatch", *args.words]).script
    if not script:
        raise ScriptError("no job script is given; 'nimo scale --help' shows examples")
    if not Path(script).is_file():
        raise ScriptError(f"{script}: no such file")
    if not args.counts:
        raise ConfigError("-N COUNTS is missing, such as -N 1-64")
    held_jobs.check_here(["sbatch", *args.words])
    config = {} if args.dry_run or args.existing else held_jobs.slurm_config()
    return Settings(
        script=script,
        words=tuple(args.words),
        counts=tuple(args.counts),
        sizes=Unit(args.sizes),
        most_runs=args.runs,
        budget=args.budget,
        limit_s=60 * (args.time or (_MINUTES if args.existing else _own_limit(args.words))),
        overrun_s=held_jobs.overrun_s(config) if config else 0.0,
        together=max(args.together, 1),
        weak=bool(args.weak) or any("{n}" in word for word in args.words),
        filter=args.weak,
    )


def _own_limit(words: Sequence[str]) -> float:
    """Give the limit of a run in minutes, and say where it replaces the script's."""
    from slurm_plugin.cli.sbatch_request import request  # noqa: PLC0415

    with suppress(ScriptError):
        if (own := request(words, user="").get("time_limit") or _MINUTES) != _MINUTES:
            said = f"the script's time limit is {duration_text(60 * own)}, each run gets"
            print(f"nimo scale: {said} {duration_text(60 * _MINUTES)} (--time)", file=sys.stderr)
    return _MINUTES


def _folder(args: argparse.Namespace) -> Path:
    from sacct_ingest.scripts.job_script import parse_command_line  # noqa: PLC0415

    if args.directory:
        return Path(args.directory)
    script = parse_command_line(["sbatch", *args.words]).script
    if args.resume and script and Path(script).is_dir():
        return Path(script)
    return Path(f"{Path(script).stem or 'study'}.scale")
