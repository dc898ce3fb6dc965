"""The pictures of the pages in the documentation: of the pages that there are, in both themes.

They are made of ``nimo demo`` by ``pytest tests/docs/test_pictures.py --record``, and are old
where a page of the same data shows other words, marks or looks than when they were made.
"""

import json
import re
import subprocess
import time
from contextlib import redirect_stdout
from hashlib import blake2b
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from predictor.problems import Problem
from predictor.refit import row_of
from sacct_ingest.store import DecisionSelection, Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config
from slurm_plugin.doctor import Finding, FindingState
from slurm_plugin.protocol.status_messages import PartitionWait, WaitRow, Waits
from slurm_plugin.slurm.slurm_conf import PrivateDataRules
from slurm_plugin.web.data import Service
from slurm_plugin.web.view import style
from tests.processes import LONGEST_WAIT_S
from tests.sacct_ingest.records import run
from tests.slurm_plugin.made import table
from tests.slurm_plugin.reports.rows import decision
from tests.slurm_plugin.web import conftest as site
from tests.slurm_plugin.web.test_browser import CHROMIUM, with_style

ask, config, filled, store_path = site.ask, site.config, site.filled, site.store_path
saved_replay = site.saved_replay
FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
NAMES = ["overview", "mine", "applications", "application", "decisions"]
NAMES += ["decision", "queue", "savings", "report", "replay"]
#: Users, accounts and partitions of the page of savings: the last wait longest.
QUEUES = [("ada", "physics", "batch"), ("carol", "physics", "gpu"), ("bob", "bio", "gpu")]
WIDTH, HEIGHT, COLOURS = 1100, 1150, 256


def test_the_pictures_show_the_pages_of_today(
    ask, store_path, saved_replay, request, tmp_path, monkeypatch
):
    monkeypatch.delenv("NIMO_CONFIG", raising=False)
    key = _fill(store_path)
    application = f"/application?level=line&key={key}"
    today = _pages(
        ask, application, "d" * 12, Config(store=f"sqlite:///{store_path}"), saved_replay
    )
    if request.config.getoption("--record"):
        _record(ask, tmp_path)
    shown = (FOLDER.parent / "web.md").read_text()
    made = {}
    for name in NAMES:
        # Numbers are the data's and the clock's; pictures show the page without its script.
        page = re.sub(r"\d[\d.:T-]*", "0", re.sub("<script.*?</script>", "", today[name]))
        seen = blake2b(style() + page.encode(), digest_size=8)
        for theme in ("light", "dark"):
            picture = (FOLDER / f"{name}-{theme}.png").read_bytes()
            seen.update(picture)
            assert int.from_bytes(picture[16:20]) == WIDTH
            assert len(picture) < 80_000
            assert f"pictures/{name}-{theme}.png" in shown
        made[name] = seen.hexdigest()
    if request.config.getoption("--record"):
        (FOLDER / "pages.json").write_text(json.dumps(made, indent=1) + "\n")
    stored = json.loads((FOLDER / "pages.json").read_text())
    assert made == stored, "pytest tests/docs/test_pictures.py --record makes the pictures anew"


def _fill(store_path):
    """Give the test site what pages draw: runs, a decision's outcome, waits."""
    with Store.open(str(store_path)) as store:
        sizes = (1, 2, 4, 8)
        store.runs.add([run(job_id=n, name="sim", nodes=n, elapsed_s=4e3 / n) for n in sizes])
        (key,) = {row.line for row in store.runs.newest(9)}
        store.decisions.add([decision(decision_id="d" * 12, at_s=time.time(), name="sim", key=key)])
        problem = Problem("linear_section", "all runs lie in the linear part", 32)
        made = table(level="line", key=key, label="ada/sim", runs=30, problems=(problem,))
        store.fits.replace([row_of(made)])
    site.joined(store_path, name="sim")
    _put_queue(store_path, sizes)
    return key


def _put_queue(path, sizes):
    """Leave the outlook of a queue; the demo's is empty."""
    rows = [
        PartitionWait(
            partition="batch", waiting=14, nodes=n, limit_s=3600.0,
            wait_s=600.0 * n, low_s=90.0 * n, high_s=900.0 * n,
        )
        for n in sizes
    ]  # fmt: skip
    record = {"recorded": 240, "inside": 0.91}
    uses = [site.use_of("batch", "short")]
    site.put_waits(path, *rows, made_s=time.time(), uses=uses, **record)


def _pages(ask, application, job, config, replay):
    """Give each page as root sees it."""
    addresses = (
        *("/", "/mine", "/applications", application, "/decisions"),
        *(f"/decision?id={job}", "/queue", "/savings", "/report", "/replay"),
    )
    fine = ["nimod 0.3.0 answers", "nimod read the cluster's state 3 s ago"]
    fine += ["accounting read 12 min ago", "fitted 41 min ago"]
    now_s = time.time()
    start = {"start_s": now_s + 4000, "low_s": now_s + 900, "high_s": now_s + 9000}
    start |= {"limit_s": 7200.0}
    job = WaitRow(job_id=4301, user="root", name="wrf-d02", partition="batch", nodes=8, **start)
    service = Service(
        lambda: [Finding(state=FindingState.OK, message=text) for text in fine],
        lambda _: Waits(made_s=now_s - 40, rows=[job]),
    )
    root = {"peer": site.Peer(uid=0), "user": "root", "replay": str(replay)}
    given = root | {"visibility": PrivateDataRules(), "service": service}
    chosen = replace(config, cluster="pine", mode=Mode.ENFORCE)
    got = {name: ask(at, of=chosen, **given) for name, at in zip(NAMES, addresses, strict=True)}
    assert {one.status_code for one in got.values()} == {200}
    return {name: one.text for name, one in got.items()}


def _record(ask, folder):
    assert main(["demo", "--directory", str(folder / "demo")]) == 0
    assert main(["demo", "--stop", "--directory", str(folder / "demo")]) == 0
    argv = ["replay", "--store", f"{folder}/demo/nimo.db", "--suggest", "--workers", "1", "--json"]
    with (folder / "demo" / "replay.json").open("w") as file, redirect_stdout(file):
        assert main(argv) == 0
    _shoot_all(ask, folder)


def _shoot_all(ask, folder):
    url = f"sqlite:///{folder}/demo/nimo.db"
    with Store.open(url) as store:
        pairs = store.decisions.newest(DecisionSelection(changed=True), most=50)
    _put_queue(url, (1, 2, 4, 8, 16, 32))
    one, _ = next(pair for pair in pairs if pair[0].requested_nodes == 2 and pair[1])
    application = f"/application?level={one.key_level}&key={one.key}"
    pages = _pages(
        ask, application, one.decision_id, Config(store=url), folder / "demo/replay.json"
    )
    pages["savings"] = _of_weeks(ask, folder)
    for name, text in pages.items():
        page = folder / f"{name}.html"
        page.write_text(with_style(ask, text))
        for theme in ("light", "dark"):
            _shoot(page, FOLDER / f"{name}-{theme}.png", theme, folder)


def _of_weeks(ask, folder):
    """Make the page of savings of a quarter: the demo's jobs are all of one day."""
    url = f"sqlite:///{folder}/weeks.db"
    rng = Random(7)
    for place, (user, account, partition) in enumerate(QUEUES):
        site.add_weeks(
            url,
            weeks=12,
            each=5,
            elapsed_s=lambda _: round(1000 * rng.lognormvariate(0, 0.12)),
            wait_s=lambda number, place=place: round(
                rng.expovariate(1 / ((1 + place) * (400 + 10 * number)))
            ),
            start=1000 * place,
            user=user,
            account=account,
            partition=partition,
        )
    root = {"peer": site.Peer(uid=0), "user": "root", "visibility": PrivateDataRules()}
    return ask("/savings", of=Config(store=url, cluster="pine"), **root).text


def _shoot(page, picture, theme, folder):
    image = pytest.importorskip("PIL.Image")
    scheme = f"--blink-settings=preferredColorScheme={'0' if theme == 'dark' else '1'}"
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", scheme)
    size = f"--window-size={WIDTH},{HEIGHT}"
    where = (f"--user-data-dir={folder}/profile", f"--screenshot={picture}", page.as_uri())
    subprocess.run(
        [CHROMIUM, *options, size, *where], capture_output=True, timeout=LONGEST_WAIT_S, check=True
    )
    # Of the methods this one keeps the few dots of a colour of their own.
    drawn = image.open(picture).convert("RGB").quantize(COLOURS, image.Quantize.MAXCOVERAGE)
    drawn.save(picture, optimize=True)
