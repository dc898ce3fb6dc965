"""A site with applications and decisions of two users, and who looks at it."""

import asyncio
import shutil
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest
from httpx import ASGITransport, AsyncClient, Response
from msgspec.structs import replace
from starlette.types import ASGIApp, Receive, Scope, Send

from predictor.prediction_table import ByType, PredictionTable
from predictor.problems import Problem
from predictor.refit import row_of
from predictor.types import Verdict
from sacct_ingest.records import DecisionRow
from sacct_ingest.store import DecisionSelection, Store
from sacct_ingest.store.fits import OUTLOOK
from sacct_ingest.store.rows import RecordRow
from slurm_plugin.cli.nimo import main
from slurm_plugin.config.settings import Config, Web
from slurm_plugin.protocol.status_messages import PartitionWait, QueueOutlook, QueueUse
from slurm_plugin.slurm.slurm_conf import PrivateDataRules
from slurm_plugin.web.app import application
from slurm_plugin.web.data import PageData, Service
from slurm_plugin.web.viewer import Peer, Proxies
from tests.sacct_ingest.records import run
from tests.slurm_plugin.cli.test_replay_command import fill
from tests.slurm_plugin.made import table
from tests.slurm_plugin.reports.rows import decision

EVIL = "<script>alert(1)</script>\"'&\x1b[2J\u202efdp"
PROXY = Peer(uid=33)
ALL = PrivateDataRules()


def own(name: str, *accounts: str) -> PrivateDataRules:
    return PrivateDataRules(only_user=name, accounts=accounts, why="others' jobs are not shown")


def of_type(name: str) -> ByType:
    """What was read of an application on one more node type."""
    like = table()
    given = {one.name: getattr(like, one.name) for one in fields(ByType) if one.name != "node_type"}
    return ByType(node_type=name, **given)


def tables() -> list[PredictionTable]:
    problem = Problem("linear_section", "all runs lie in the linear part", 32)
    return [
        table(level="line", key="a1", label="ada/wrf", runs=40),
        table(level="line", key="b1", label="bob/melt", runs=7, verdict=Verdict.DOUBTFUL),
        table(level="line", key="b2", label=f"bob/{EVIL}", problems=(problem,)),
        table(
            level="tag",
            key="bob/ocean/d01",
            label="bob/ocean/d01",
            runs=12,
            node_type="rome",
            by_type=(of_type("ice<lake>"),),
        ),
        table(level="name", key="ada/wrf", label="ada/wrf", model="history"),
        table(level="user", key="bob", label="bob", model="history"),
    ]


def decided() -> list[DecisionRow]:
    now_s = time.time()
    return [
        decision(decision_id="a" * 12, at_s=now_s - 60, key="a1", label="ada/wrf"),
        decision(
            decision_id="b" * 12, at_s=now_s - 50, user="bob", account="bio", name=EVIL, key="b2",
            label=f"bob/{EVIL}", work_dir="/home/bob/<i>",
        ),
        decision(
            decision_id="c" * 12, at_s=now_s - 40, user="bob", account="chem", reason="array",
            mode="observe", action="keep", applied=False, partition="long", key="", label="",
        ),
    ]  # fmt: skip


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("web") / "nimo.db"
    with Store.open(str(path)) as store:
        store.fits.replace([row_of(one) for one in tables()])
        store.decisions.add(decided())
    return path


@pytest.fixture(scope="session")
def saved_replay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    fill(folder / "history.db", 40)
    saved = folder / "replay.json"
    argv = ["replay", "--store", str(folder / "history.db"), "--workers", "1", "--json"]
    with saved.open("w") as file, redirect_stdout(file):
        assert main(argv) == 0
    return saved


@pytest.fixture
def store_path(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path))


def joined(path: Path, **given: Any) -> None:
    """Store a run of ada's newest decision."""
    with Store.open(str(path)) as store:
        at_s = int(store.decisions.newest(DecisionSelection(user="ada"), most=1)[0][0].at_s)
        store.runs.add([run(job_id=900008, submit_s=at_s, start_s=at_s, nodes=4, **given)])
        store.decisions.join_outcomes()


def put_waits(path: Path, *rows: PartitionWait, made_s: float = 1e9, **given: Any) -> None:
    """Leave the waits that nimod expects, in its words."""
    outlook = QueueOutlook(made_s=made_s, partitions=list(rows), **given)
    with Store.open(str(path)) as store:
        payload = msgspec.json.encode(outlook).decode()
        store.records.put(RecordRow(level=OUTLOOK, key="pine", payload=payload))


def add_weeks(
    path: Path,
    *,
    weeks: int,
    each: int,
    elapsed_s: Callable[[int], int],
    wait_s: Callable[[int], int],
    start: int = 0,
    user: str = "ada",
    account: str = "physics",
    partition: str = "batch",
) -> None:
    """Store some jobs a week of a user's until now, on 4 nodes instead of 2.

    start: number of the first job; those of another call have others.
    """
    week_s = 7 * 86_400
    first_s = int(time.time()) - weeks * week_s
    decisions, runs = [], []
    for number in range(each * weeks):
        at_s = first_s + number * week_s // each
        decisions.append(
            decision(
                decision_id=f"{start + number:012x}", at_s=float(at_s), key="a1", label="ada/wrf",
                user=user, account=account, partition=partition,
                predicted_s=1000.0, low_s=800.0, high_s=1300.0, request_predicted_s=1900.0,
                request_low_s=1600.0, request_high_s=2300.0, wait_s=60.0, request_wait_s=60.0,
            )
        )  # fmt: skip
        runs.append(
            run(
                job_id=910_000 + start + number, user=user, nodes=4, elapsed_s=elapsed_s(number),
                partition=partition, name="wrf", submit_s=at_s, eligible_s=at_s,
                start_s=at_s + wait_s(number),
            )
        )  # fmt: skip
    with Store.open(str(path)) as store:
        store.decisions.add(decisions)
        store.runs.add(runs)
        store.decisions.join_outcomes()


def use_of(*partitions: str, **given: Any) -> QueueUse:
    """Nodes in use in the next six hours: what runs ends, and what waits starts."""
    values = {
        "running": [max(30.0 - 1.25 * i, 0.0) for i in range(49)],
        "waiting": [min(0.5 * i, 20.0) for i in range(49)],
        "closed": [0.0] * 49,
    }
    return QueueUse(partitions=list(partitions), nodes=32, step_s=450.0, **values | given)


@pytest.fixture
def config(store_path: Path) -> Config:
    return Config(cluster="pine", store=f"sqlite:///{store_path}")


async def request(app: ASGIApp, method: str, path: str, headers: dict[str, str]) -> Response:
    async with AsyncClient(transport=ASGITransport(app), base_url="http://localhost") as client:
        return await client.request(method, path, headers=headers)


def with_peer(app: ASGIApp, peer: Peer) -> ASGIApp:
    """Say who is at the other end, as the server does."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["peer"] = peer
        await app(scope, receive, send)

    return served


@pytest.fixture
def ask(config: Config) -> Any:
    """Ask for pages as a user whom a proxy names: ``ask("/", "ada", own("ada"))``."""
    sites: list[PageData] = []

    def asked(
        path: str,
        user: str = "admin",
        visibility: PrivateDataRules = ALL,
        *,
        peer: Peer = PROXY,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        service: Service | None = None,
        of: Config | None = None,
        folder: Path | None = None,
        **web: Any,
    ) -> Response:
        chosen = replace(of or config, web=Web(**web))
        site = PageData(
            chosen,
            lambda: Store.open(chosen.store_url, create=False),
            lambda _: visibility,
            service,
            folder=folder,
        )
        sites.append(site)
        app = application(site, Proxies(chosen.web.user_header, frozenset({33})))
        named = {"X-Forwarded-User": user} if user else {}
        return asyncio.run(
            request(with_peer(app, peer), method, path, headers=named | (headers or {}))
        )

    yield asked
    for site in sites:
        site.close()


Ask = Callable[..., Response]
