"""Job arrays, each summed up over its tasks that started."""

import pytest

from sacct_ingest.records import JobState
from sacct_ingest.store import DecisionSelection, Store
from tests.sacct_ingest.records import SUBMIT_S, run


def task(index: int, elapsed_s: float = 100.0, array: int = 40, **given: object):
    own = {"job_id": array + index, "array_job_id": array, "array_task_id": index}
    times = {"elapsed_s": elapsed_s, "end_s": SUBMIT_S + 10 + int(elapsed_s)}
    return run(**own | times | given)


@pytest.fixture
def filled(store: Store) -> Store:
    later = {"submit_s": SUBMIT_S + 900, "user": "bob", "account": "physics"}
    store.runs.add(
        [
            run(),  # no array
            task(0, 100.0, cpu_s=400.0, mem_bytes=5),
            task(1, 300.0, cpu_s=None, mem_bytes=9, state=JobState.FAILED),
            task(2, 50.0, state=JobState.REQUEUED),
            task(2, 200.0, submit_s=SUBMIT_S + 60),
            task(3, 0.0, start_s=None, state=JobState.CANCELLED),
            task(0, array=80, **later),
        ]
    )
    return store


def test_tasks_are_summed_up(filled):
    newer, older = filled.runs.newest_arrays(DecisionSelection(), 9)
    assert (newer.array_job_id, newer.user, newer.tasks) == (80, "bob", 1)
    assert (older.array_job_id, older.name, older.tasks, older.completed) == (40, "wrf", 3, 2)
    assert (older.shortest_s, older.mean_s, older.longest_s) == (100.0, 200.0, 300.0)
    assert (older.used_cpus, older.mem_bytes) == (0.5, 9)  # 400 s of eight CPUs for 100 s
    assert newer.used_cpus is None


@pytest.mark.parametrize(
    ("chosen", "arrays"),
    [
        ({"user": "ada"}, [40]),
        ({"since_s": SUBMIT_S + 100.0}, [80]),
        ({"until_s": SUBMIT_S + 100.0}, [40]),
        ({"account": "physics"}, [80]),
        ({"cluster": "oak"}, []),
        ({"only_user": "ada"}, [40]),
        ({"only_user": "ada", "only_accounts": ("physics",)}, [80, 40]),
    ],
)
def test_only_what_is_chosen_or_is_visible(filled, chosen, arrays):
    result = filled.runs.newest_arrays(DecisionSelection(**chosen), 9)
    assert [one.array_job_id for one in result] == arrays


def test_the_newest_come_first_and_are_limited(filled):
    assert [one.array_job_id for one in filled.runs.newest_arrays(DecisionSelection(), 1)] == [80]
