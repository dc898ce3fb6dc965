"""Changes that NIMO makes to users' jobs as an operator of Slurm.

Such a change takes back what NIMO itself wrote into a job, and nothing else: the user's last word
wins.  Slurm has no compare-and-set, so it is made of a question and an update right behind it: a
field is changed only while it has the value that it has by NIMO's doing.  Who saw it with another
value once knows that somebody else has changed it, and leaves it alone for good; so does who has
changed it back.  What is left alone is remembered in the store: nimod may start anew.
"""

import logging
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.hostlist import indexes_of

if TYPE_CHECKING:
    from slurm_plugin.slurm.sources import Run

_log = logging.getLogger(__name__)
#: Characters of the job ids of one command: the kernel takes 128 KiB for one argument.
_MOST_CHARACTERS = 60_000
#: Characters of them that people are told: a log's line is no user's to fill.
_SHOWN = 200
_NAME = re.compile(r"(\d+)(?:_(\d+))?")


class WrittenField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a job that has a value by NIMO's doing."""

    job_id: int  #: of a task that of its array
    task: str = ""  #: index, or of tasks that wait in one record all; empty: it is none of an array
    field: str  #: as scontrol calls it, ``timemin``
    written: str  #: value that it has by NIMO's doing
    own: str  #: its user's, which it gets back
    value: str  #: value that Slurm has now


def shared(task: str) -> bool:
    """Whether it names several tasks of an array, which wait in one record.

    >>> shared("1-9,12"), shared("12"), shared("")
    (True, False, False)
    """
    return bool(task) and not task.isdecimal()


def job_name(job_id: int, task: str) -> str:
    """Name of a job or a task as scontrol takes it.

    >>> job_name(7, ""), job_name(4, "12")
    ('7', '4_12')
    """
    return f"{job_id}_{task}" if task else str(job_id)


def job_and_task(name: str) -> tuple[int, str] | None:
    """Id of a job and index of a task in what squeue calls them with ``-r``; None: neither.

    >>> job_and_task("7"), job_and_task("4_12"), job_and_task("4_[1-9]")
    ((7, ''), (4, '12'), None)
    """
    match = _NAME.fullmatch(name)
    return (int(match[1]), match[2] or "") if match else None


#: Job, task, field.
_Key = tuple[int, str, str]
#: Gives the fields that NIMO would change, as Slurm has them now; raises SlurmError.
Reader = Callable[[], Sequence[WrittenField]]


class ClosedFields:
    """Fields of jobs that NIMO leaves alone for good; a thread saves them, another one looks.

    restored: whether those of an earlier process are known; until then nothing may be changed.
    """

    def __init__(self, *, restored: bool = True) -> None:
        self.restored = restored
        self._lock = threading.Lock()
        self._keys: set[_Key] = set()
        self._saved = _encoded(())

    def __contains__(self, key: _Key) -> bool:
        return key in self._keys

    def close(self, key: _Key) -> None:
        """Leave a field alone from now on."""
        with self._lock:
            self._keys.add(key)

    def keep(self, job_ids: Collection[int]) -> None:
        """Forget fields of all jobs but these."""
        with self._lock:
            self._keys = {key for key in self._keys if key[0] in job_ids}

    def restore(self, text: str) -> None:
        """Add those that an earlier process saved; empty: it saved none."""
        try:
            saved = msgspec.json.decode(text, type=frozenset[_Key]) if text else frozenset()
        except msgspec.MsgspecError as error:
            _log.error("fields of jobs that are left alone cannot be read: %s", error)
            saved = frozenset[_Key]()
        with self._lock:
            self._keys |= saved
        self._saved = text
        self.restored = True

    def unsaved(self) -> str | None:
        """Give the text to save; None: it is saved, or what was before is not known yet."""
        with self._lock:
            keys = list(self._keys)
        text = _encoded(keys)
        if not self.restored or text == self._saved:
            return None
        self._saved = text
        return text


def _encoded(keys: Iterable[_Key]) -> str:
    return msgspec.json.encode(sorted(keys)).decode()


class OperatorUpdates:
    """Remembers which fields of which jobs NIMO may still change.

    closed: those that it may not.
    """

    def __init__(self, closed: ClosedFields | None = None) -> None:
        self._closed = closed or ClosedFields()

    def look(self, fields: Iterable[WrittenField]) -> None:
        """Take note of a view of all jobs; those that are not there any more are forgotten.

        A field with another value than the one that NIMO wrote is closed, and stays so.  Of tasks
        in one record nothing is noted: squeue shows the first one's value for all of them.
        """
        listed = list(fields)
        self._closed.keep({field.job_id for field in listed})
        for field in listed:
            if not shared(field.task):
                self._note(field)

    def may_change(self, field: WrittenField) -> bool:
        """Whether a field has what NIMO wrote, and nobody was seen to have changed it.

        Of tasks in one record whether that may be so of any.
        """
        if shared(field.task):
            tasks = map(str, indexes_of(field.task))
            return any((field.job_id, one, field.field) not in self._closed for one in tasks)
        return field.value == field.written and _key(field) not in self._closed

    def give_back(self, run: "Run", read: Reader) -> Iterator[str]:
        """Give fields their users' values, and say what was done.

        read: asks Slurm, right before the update and right behind it: what has its user's value
            then is done with.  An update may have no effect (before 26.05.3, for a job that
            backfill has just looked at); such a field is tried again the next time.
        Raises SlurmError: Slurm does not answer.
        """
        if not self._closed.restored:
            return
        groups: dict[tuple[str, str], list[WrittenField]] = defaultdict(list)
        for field in read():
            if self._note(field):
                groups[field.field, field.own].append(field)
        if not groups:
            return
        for (name, own), fields in groups.items():
            for some in _chunks(_job_ids(fields)):
                yield _update(run, some, f"{name}={own}")
        for field in read():
            self._note(field)

    def _note(self, field: WrittenField) -> bool:
        """Take note of a field; whether it may be changed."""
        may = self.may_change(field)
        if not may:
            self._closed.close(_key(field))
        return may


def _key(field: WrittenField) -> _Key:
    return field.job_id, field.task, field.field


def _job_ids(fields: Iterable[WrittenField]) -> Iterator[str]:
    """Name jobs as scontrol takes them; an array's id alone would mean all of its tasks."""
    tasks: dict[int, list[str]] = defaultdict(list)
    for field in fields:
        tasks[field.job_id].append(field.task)
    for job_id, indexes in tasks.items():
        if indexes == [""]:
            yield str(job_id)
        elif len(indexes) == 1:
            yield job_name(job_id, indexes[0])
        else:
            for some in _chunks(indexes):
                yield f"{job_id}_[{','.join(some)}]"


def _chunks(words: Iterable[str]) -> Iterator[list[str]]:
    """Deal out job ids, or tasks, to commands."""
    some: list[str] = []
    length = 0
    for word in words:
        if some and length + len(word) > _MOST_CHARACTERS:
            yield some
            some = []
            length = 0
        some.append(word)
        length += len(word) + 1
    yield some


def _update(run: "Run", jobs: Sequence[str], change: str) -> str:
    try:
        run(("scontrol", "update", f"jobid={','.join(jobs)}", change))
    except SlurmError as error:  # such as for a job that has just ended; the others are done
        return f"{change} of {len(jobs)} jobs: {error}"
    names = ", ".join(jobs)
    if len(names) > _SHOWN:
        names = f"{names[:_SHOWN]}... ({len(jobs)} jobs or arrays)"
    return f"{change}: {names}"
