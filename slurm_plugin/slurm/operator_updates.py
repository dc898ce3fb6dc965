"""Changes that NIMO makes to users' jobs as an operator of Slurm.

Such a change takes back what NIMO itself wrote into a job, and nothing else: the user's last word
wins.  Slurm has no compare-and-set, so it is made of a question and an update right behind it: a
field is changed only while it has the value that it has by NIMO's doing.  Who saw it with another
value once knows that somebody else has changed it, and leaves it alone for good; so does who has
changed it back.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm.sources import Run

#: Characters of the job ids of one command: the kernel takes 128 KiB for one argument.
_MOST_CHARACTERS = 60_000
#: Stands for all tasks of an array that share a record.
_REST = "*"


class WrittenField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a job that has a value by NIMO's doing."""

    job_id: int  #: of a task that of its array
    tasks: str = ""  #: index of a task, or of all that wait in one record: ``1-9,12``
    field: str  #: as scontrol calls it, ``timemin``
    written: str  #: value that it has by NIMO's doing
    own: str  #: its user's, which it gets back
    value: str  #: value that Slurm has now

    @property
    def job(self) -> str:
        """Id as scontrol takes it; an array's id alone would mean all of its tasks.

        >>> field = {"field": "timemin", "written": "5", "own": "0", "value": "5"}
        >>> WrittenField(job_id=4, tasks="1-9", **field).job
        '4_[1-9]'
        """
        if not self.tasks:
            return str(self.job_id)
        return f"{self.job_id}_{self.tasks if self.tasks.isdecimal() else f'[{self.tasks}]'}"


#: Job, task or the rest of an array, field.
_Key = tuple[int, str, str]
#: Gives the fields that NIMO would change, as Slurm has them now; raises SlurmError.
Reader = Callable[[], Sequence[WrittenField]]


class OperatorUpdates:
    """Remembers which fields of which jobs NIMO may still change."""

    def __init__(self) -> None:
        self._open: dict[_Key, bool] = {}

    def look(self, fields: Iterable[WrittenField]) -> None:
        """Take note of a view of all jobs; those that are not there any more are forgotten.

        A field with another value than the one that NIMO wrote is closed, and stays so.  A task
        that leaves its array's record takes that record's state along.
        """
        before, self._open = self._open, {}
        for field in fields:
            self._note(before, field)

    def may_change(self, field: WrittenField) -> bool:
        """Whether a field has what NIMO wrote, and nobody was seen to have changed it."""
        return field.value == field.written and self._state(self._open, field)

    def give_back(self, run: Run, read: Reader) -> Iterator[str]:
        """Give fields their users' values, and say what was done.

        read: asks Slurm, right before the update and right behind it: what has its user's value
            then is done with.  An update may have no effect (before 26.05.3, for a job that
            backfill has just looked at); such a field is tried again the next time.
        Raises SlurmError: Slurm does not answer.
        """
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for field in read():
            if self._note(self._open, field):
                groups[field.field, field.own].append(field.job)
        if not groups:
            return
        for (name, own), jobs in groups.items():
            for some in _chunks(jobs):
                yield _update(run, some, f"{name}={own}")
        for field in read():
            self._note(self._open, field)

    def _note(self, known: dict[_Key, bool], field: WrittenField) -> bool:
        """Take note of a field; whether it may be changed."""
        self._open[_key(field)] = may = field.value == field.written and self._state(known, field)
        return may

    @staticmethod
    def _state(known: dict[_Key, bool], field: WrittenField) -> bool:
        rest = field.job_id, _REST, field.field
        return known.get(_key(field), known.get(rest, True))


def _key(field: WrittenField) -> _Key:
    one_task = field.tasks.isdecimal() or not field.tasks
    return field.job_id, field.tasks if one_task else _REST, field.field


def _chunks(jobs: Iterable[str]) -> Iterator[list[str]]:
    """Deal out job ids to commands."""
    some: list[str] = []
    length = 0
    for job in jobs:
        if some and length + len(job) > _MOST_CHARACTERS:
            yield some
            some, length = [], 0
        some.append(job)
        length += len(job) + 1
    yield some


def _update(run: Run, jobs: Sequence[str], change: str) -> str:
    try:
        run(("scontrol", "update", f"jobid={','.join(jobs)}", change))
    except SlurmError as error:  # such as for a job that has just ended; the others are done
        return f"{change} of {len(jobs)} jobs: {error}"
    return f"{change}: {', '.join(jobs)}"
