"""The texts of a run are read here, once, when it is stored.

Command line, comment, name and folder are parsed; what comes of it is stored beside the row, with
the version of the rules by which it was read.  Where these change, `RULES` does, and rows are read
anew from the texts that are stored (`sacct_ingest.store.resolution`).
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from sacct_ingest.records import Identity
from sacct_ingest.runs.attributes import said_by
from sacct_ingest.runs.kinds import kind_of
from sacct_ingest.runs.submission import Submission, decode
from sacct_ingest.scripts.engines import engine_job, folder_template, name_template, template
from sacct_ingest.scripts.job_script import bounded_cache
from sacct_ingest.scripts.signature import (
    comment_of,
    identity_of_parsed,
    parsed_line,
    words_of_command_line,
)
from sacct_ingest.text.tag import Tag, parse_tag, study_of

#: Characters of a command, and of an option's value, that are stored.
_COMMAND_LENGTH: Final = 200
_VALUE_LENGTH: Final = 64
#: Options whose values are in the attributes already, or say nothing of a run.
_LEFT_OUT: Final = frozenset({"wrap", "export", "comment", "job-name", "chdir"})
_encode = msgspec.json.Encoder().encode
#: As JSON a submission ends with its folder, which differs where nothing else does.
_END: Final = ',""]'


def resolved(
    user: str, name: str, comment: str, submit_line: str, work_dir: str
) -> tuple[Identity, str]:
    """Give the identity of a run, and its submission as text."""
    # The folder where the line names it, else nothing: it is part of the cache's key.
    named = work_dir if work_dir and work_dir in submit_line else ""
    identity, text = _resolved(user, name, comment, submit_line, named)
    return identity, f"{text}{_folder(work_dir)}]" if work_dir else f'{text}""]'


def submission_of(*, name: str, comment: str, submit_line: str, work_dir: str) -> Submission:
    """Read the texts of a run."""
    return decode(resolved("", name, comment, submit_line, work_dir)[1])


@bounded_cache(entries=4096, characters=2048)
def _resolved(
    user: str, name: str, comment: str, submit_line: str, work_dir: str
) -> tuple[Identity, str]:
    comment = comment_of(comment, submit_line)
    parsed = parsed_line(submit_line, (comment, name))
    words = words_of_command_line(parsed, work_dir)
    options = parsed.options
    tag = parse_tag(comment)
    submission = Submission(
        said=said_by(words, name=name, comment=comment, export=options.get("export") or ""),
        command=template(" ".join(words))[:_COMMAND_LENGTH],
        label=name_template(name),
        program=parsed.program if submit_line else "",
        options=_short(options),
        nodes=_range(options.get("nodes") or ""),
        study=study_of(comment, submit_line),
        sizes=_offered(tag),
        off=bool(tag and tag.off),
        het=parsed.het,
        exports="=" in (options.get("export") or ""),
        kind=kind_of(
            name,
            words,
            engine_job(name, comment, words),
            parsed.program if submit_line else "",
            options,
        ),
    )
    text = _encode(submission).decode().removesuffix(_END) + ","
    return identity_of_parsed(user, name, comment, parsed, work_dir), text


@lru_cache(maxsize=4096)
def _folder(work_dir: str) -> str:
    return _encode(folder_template(work_dir)).decode()


def _short(options: Mapping[str, str | None]) -> dict[str, str]:
    chosen = ((name, value) for name, value in options.items() if name not in _LEFT_OUT)
    return {name: (value or "")[:_VALUE_LENGTH] for name, value in chosen}


def _range(text: str) -> tuple[int, int] | None:
    low, dash, high = text.partition("-")
    if not (dash and low.isdecimal() and high.isdecimal()):
        return None
    return int(low), int(high)


def _offered(tag: Tag | None) -> str:
    if tag is None:
        return ""
    if tag.gpus:
        return "gpus"
    if tag.tasks:
        return "tasks"
    return "cpus" if tag.cpus else ""
