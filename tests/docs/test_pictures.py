"""The pictures of the pages in the documentation: of the pages that there are, in both themes.

They are made of ``nimo demo`` by ``pytest tests/docs/test_pictures.py --record``, and are old
where a page has other headings than when they were made.
"""

import json
import re
import subprocess
import time
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from sacct_ingest.store import DecisionSelection, Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config
from slurm_plugin.doctor import Finding, FindingState
from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.slurm.slurm_conf import PrivateDataRules
from slurm_plugin.web.data import Service
from tests.slurm_plugin.web import conftest as site
from tests.slurm_plugin.web.test_browser import CHROMIUM, with_style

ask, config, filled, store_path = site.ask, site.config, site.filled, site.store_path
FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
NAMES = ["overview", "mine", "application", "decisions", "decision", "queue", "report", "replay"]
#: Pages of the test site with the same templates.
ADDRESSES = (
    *("/", "/mine", "/application?level=line&key=a1", "/decisions", f"/decision?id={'a' * 12}"),
    *("/queue", "/report", "/replay"),
)
WIDTH, HEIGHT, COLOURS = 1100, 1150, 128


def outline(text: str) -> list[str]:
    """Headings, without what is the data's."""
    return re.findall(r"<h2[^>]*>([^<]+)</h2>", text)


def test_the_pictures_show_the_pages_of_today(ask, request, tmp_path, monkeypatch):
    monkeypatch.delenv("NIMO_CONFIG", raising=False)
    today = {
        name: outline(ask(address).text) for name, address in zip(NAMES, ADDRESSES, strict=True)
    }
    if request.config.getoption("--record"):
        _record(ask, tmp_path)
        (FOLDER / "outlines.json").write_text(json.dumps(today, indent=1) + "\n")
    stored = json.loads((FOLDER / "outlines.json").read_text())
    assert today == stored, "pytest tests/docs/test_pictures.py --record makes the pictures anew"
    shown = (FOLDER.parent / "web.md").read_text()
    for name in NAMES:
        for theme in ("light", "dark"):
            picture = (FOLDER / f"{name}-{theme}.png").read_bytes()
            assert int.from_bytes(picture[16:20]) == WIDTH
            assert len(picture) < 80_000
            assert f"pictures/{name}-{theme}.png" in shown


def _record(ask: site.Ask, folder: Path) -> None:
    assert CHROMIUM is not None
    assert main(["demo", "--directory", str(folder / "demo")]) == 0
    argv = ["replay", "--store", f"{folder}/demo/nimo.db", "--suggest", "--workers", "1", "--json"]
    with (folder / "demo" / "replay.json").open("w") as file, redirect_stdout(file):
        assert main(argv) == 0
    _shoot_all(ask, folder)


def _shoot_all(ask: site.Ask, folder: Path) -> None:
    url = f"sqlite:///{folder}/demo/nimo.db"
    with Store.open(url) as store:
        pairs = store.decisions.newest(DecisionSelection(changed=True), most=50)
    one, _ = next(pair for pair in pairs if pair[0].requested_nodes == 2 and pair[1])
    addresses = (
        *("/", "/mine", f"/application?level={one.key_level}&key={one.key}", "/decisions"),
        *(f"/decision?id={one.decision_id}", "/queue", "/report", "/replay"),
    )
    fine = ["nimod read the cluster's state 3 s ago"]
    fine += ["accounting read 12 min ago", "fitted 41 min ago"]
    now_s = time.time()
    start = {"start_s": now_s + 4000, "low_s": now_s + 900, "high_s": now_s + 9000}
    job = WaitRow(job_id=4301, user="root", name="wrf-d02", partition="batch", nodes=8, **start)
    service = Service(
        lambda: [Finding(state=FindingState.OK, message=text) for text in fine],
        lambda _: Waits(made_s=now_s - 40, rows=[job]),
    )
    chosen = Config(cluster="pine", store=url, mode=Mode.ENFORCE)
    root = {"peer": site.Peer(uid=0), "user": "root", "replay": f"{folder}/demo/replay.json"}
    for name, address in zip(NAMES, addresses, strict=True):
        page = folder / f"{name}.html"
        got = ask(address, **root, visibility=PrivateDataRules(), service=service, of=chosen)
        assert got.status_code == 200
        page.write_text(with_style(ask, got.text))
        for theme in ("light", "dark"):
            _shoot(page, FOLDER / f"{name}-{theme}.png", theme, folder)


def _shoot(page: Path, picture: Path, theme: str, folder: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    scheme = f"--blink-settings=preferredColorScheme={'0' if theme == 'dark' else '1'}"
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", scheme)
    size = f"--window-size={WIDTH},{HEIGHT}"
    where = (f"--user-data-dir={folder}/profile", f"--screenshot={picture}", page.as_uri())
    subprocess.run([CHROMIUM, *options, size, *where], capture_output=True, timeout=120, check=True)
    # Of the methods this one keeps the few dots of a colour of their own.
    drawn = image.open(picture).convert("RGB").quantize(COLOURS, image.Quantize.MAXCOVERAGE)
    drawn.save(picture, optimize=True)
