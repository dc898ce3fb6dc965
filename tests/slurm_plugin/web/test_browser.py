"""The pages in a real browser: Chromium without a window, and axe's rules of accessibility."""

import json
import re
import subprocess
from html import unescape
from importlib.resources import files

import pytest

from tests.slurm_plugin.web.chromium import CHROMIUM, WAIT_S
from tests.slurm_plugin.web.pages import ADDRESSES, APPLICATION
from tests.slurm_plugin.web.test_server import serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

#: Each page in a frame of its own, as wide as asked for; what axe finds there replaces all of them.
CHECK = """\
<!DOCTYPE html><meta charset="utf-8"><title>check</title><body><script>
const pages = PAGES, width = WIDTH, axe = AXE;
async function check(page) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:2000px;border:0`;
  frame.srcdoc = page;
  await new Promise(done => { frame.onload = done; document.body.append(frame); });
  const inside = frame.contentWindow;
  inside.eval(axe);
  const found = await inside.axe.run();
  const root = inside.document.documentElement;
  const skip = inside.document.querySelector("a");
  skip.focus();
  const skipped = skip.getBoundingClientRect().left >= 0 && skip.getAttribute("href") == "#content";
  // Each in turn gets the focus, and shows that it has it.
  const keys = [...inside.document.querySelectorAll("a[href], input, select, button, summary")];
  const lost = keys.filter(one => one.type != "hidden" && one.checkVisibility()).filter(one => {
    one.focus();
    const outline = inside.getComputedStyle(one).outlineStyle;
    return inside.document.activeElement != one || outline != "solid";
  });
  const result = {
    violations: found.violations.map(v => v.id + ": " + v.nodes.map(n => n.html).join(" | ")),
    passes: found.passes.map(v => v.id),
    dark: inside.matchMedia("(prefers-color-scheme: dark)").matches,
    overflow: root.scrollWidth - width,
    skip: skipped,
    lost: lost.map(one => one.outerHTML),
    order: [...inside.document.querySelectorAll("*")].filter(one => one.tabIndex > 0).length,
  };
  frame.remove();
  return result;
}
(async () => {
  const results = [];
  for (const page of pages) results.push(await check(page));
  document.body.textContent = "RESULT" + JSON.stringify(results) + "END";
})();
</script>"""


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    """Run Chromium: ``browse(url, option...)``."""

    def run(url, *options):
        profile = tmp_path_factory.mktemp("profile")
        common = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
        return subprocess.run(
            [CHROMIUM, *common, f"--user-data-dir={profile}", "--hide-scrollbars", *options, url],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=True,
        )

    return run


@pytest.mark.parametrize(
    ("width", "scheme", "script"),
    [
        *((1280, "light", True), (320, "dark", True)),
        *((1280, "dark", False), (320, "light", False)),
    ],
)
def test_no_page_breaks_a_rule_of_accessibility(
    ask, browse, saved_replay, tmp_path, width, scheme, script
):
    addresses = [*ADDRESSES, "/nothing"]
    pages = [
        with_style(ask, ask(one, replay=str(saved_replay)).text, script=script) for one in addresses
    ]
    page = tmp_path / "check.html"
    page.write_text(_filled(pages, width))
    blink = f"--blink-settings=preferredColorScheme={'0' if scheme == 'dark' else '1'}"
    text = browse(page.as_uri(), "--dump-dom", "--virtual-time-budget=600000", blink).stdout
    reported = re.search("RESULT(.*)END", text, re.DOTALL)
    assert reported is not None, text[-2000:]
    results = json.loads(unescape(reported[1]))
    assert len(results) == len(pages)
    for address, result in zip(addresses, results, strict=True):
        assert result["violations"] == [], address
        assert result["overflow"] <= 0, address
        assert (result["skip"], result["lost"], result["order"]) == (True, [], 0), address
        assert result["dark"] == (scheme == "dark")
        assert {"color-contrast", "document-title", "html-has-lang"} <= set(result["passes"])


def test_a_broken_page_is_noticed(browse, tmp_path):
    page = tmp_path / "check.html"
    bad = "<html><body><img src=x><p style='color:#ccc;background:#fff'>pale</p></body></html>"
    page.write_text(_filled([bad], 320))
    text = unescape(browse(page.as_uri(), "--dump-dom", "--virtual-time-budget=600000").stdout)
    assert "color-contrast" in text
    assert "image-alt" in text


def test_the_browser_takes_style_and_script_and_runs_nothing_else(browse, store_path, tmp_path):
    shot = tmp_path / "page.png"
    with serving(store_path, "127.0.0.1:0") as (place, _):
        url = f"{place.rstrip('/')}{APPLICATION}b2"
        options = ("--enable-logging=stderr", f"--screenshot={shot}", "--window-size=1280,900")
        observed = browse(url, "--dump-dom", *options)
    assert "&lt;script&gt;alert(1)" in observed.stdout
    assert "<svg" in observed.stdout
    # What a policy forbids, and what fails to load, Chromium says in the console.
    assert [line for line in observed.stderr.splitlines() if "CONSOLE" in line] == []
    assert shot.stat().st_size > 20_000


def with_style(ask, page, *, script=False):
    """Page with its style sheet inside, and with its script, as it comes from no server."""
    link = re.search(r'<link rel="stylesheet" href="([^"]+)">', page)
    page = page.replace(link[0], f"<style>{ask(link[1]).text}</style>")
    link = re.search(r'<script src="([^"]+)" defer></script>', page)
    page = page.replace(link[0], "")
    inside = f"<script>{ask(link[1]).text}</script>" if script else ""
    return page.replace("</body>", f"{inside}</body>")


def _filled(pages, width):
    axe = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    given = {"PAGES": pages, "WIDTH": width, "AXE": axe}
    text = CHECK
    for name, value in given.items():
        text = text.replace(f" {name}", f" {json.dumps(value)}".replace("</", "<\\/"), 1)
    return text
