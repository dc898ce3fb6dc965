"""Sizes of the files that a submission names, as its user's own client sees them.

Nobody waits for a file system that hangs: what does not answer in time is left out.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sacct_ingest.files.looked_at import Named, looked_at
from sacct_ingest.runs.input_sizes import sizes_of, to_text
from sacct_ingest.scripts.input_words import input_words
from sacct_ingest.text.tag import parse_tag
from slurm_plugin.slurm.job_request import user_name

if TYPE_CHECKING:  # the database is heavy
    from sacct_ingest.ingest.input_files import Looked
    from sacct_ingest.store import Store

#: A command that people wait for waits so long for sizes.
WAIT_S = 0.5
#: Variable by which a user switches it off.
VARIABLE = "NIMO_INPUTS"


def is_off(environ: Mapping[str, str], comment: str) -> bool:
    """Whether the user wants no files looked at: by ``NIMO_INPUTS=off`` or the job's tag.

    >>> is_off({}, "nimo:inputs=off"), is_off({"NIMO_INPUTS": "off"}, ""), is_off({}, "")
    (True, True, False)
    """
    tag = parse_tag(comment)
    return environ.get(VARIABLE) == "off" or bool(tag and tag.inputs == "off")


def inputs_of(
    arguments: Sequence[str], script: str, *, work_dir: str, standard_input: str
) -> tuple[str, float | None]:
    """Give the sizes of a job's inputs as text, and when those of its arguments changed last.

    standard_input: as ``--input`` names it; empty: there is none.
    """
    named = input_words(
        arguments, script, work_dir=work_dir, standard_input=standard_input, variables=os.environ
    )
    if not named:
        return "", None
    seen = next(looked_at([Named(lambda: named)], first_s=WAIT_S, each_s=WAIT_S))
    if seen is None:
        return "", None
    typed = {*input_words(arguments, "", work_dir=work_dir, variables=os.environ)}
    changed = [one.changed_s for one in seen.files if named[one.path] in typed]
    sizes = sizes_of((one.kind, one.files, one.bytes) for one in seen.files)
    return to_text(sizes), float(max(changed)) if changed else None


def look_at_own(
    store: "Store", report: Callable[[int, str], object], *, wait_s: float | None = None
) -> "Looked":
    """Look at the input files of the user's own runs; see `sacct_ingest.ingest.input_files`."""
    from sacct_ingest.ingest.input_files import WAIT_S, Looked, look_at_inputs  # noqa: PLC0415

    if is_off(os.environ, ""):
        return Looked()
    own_s = WAIT_S if wait_s is None else wait_s
    return look_at_inputs(store, user_name(), wait_s=own_s, report=report)
