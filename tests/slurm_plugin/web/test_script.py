"""What the script of the pages does, in a real browser, under the site's own policy."""

from urllib.parse import parse_qs, urlsplit

import pytest

from predictor.refit import row_of
from sacct_ingest.store import Store
from slurm_plugin.protocol.status_messages import PartitionWait
from tests.slurm_plugin.made import table
from tests.slurm_plugin.web.chromium import CHROMIUM, chromium
from tests.slurm_plugin.web.conftest import joined, put_waits, tables, use_of
from tests.slurm_plugin.web.pages import ADDRESSES, APPLICATION
from tests.slurm_plugin.web.test_server import serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture
def site(store_path):
    """Where the pages are served; what the store has may still be changed."""
    many = [table(level="line", key=f"k{i}", label=f"ada/app{i:02}") for i in range(12)]
    with Store.open(str(store_path)) as store:
        store.fits.replace([row_of(one) for one in (*tables(), *many)])
    joined(store_path)
    rows = [
        PartitionWait(
            partition=f"part{i:02}", nodes=4, limit_s=3600.0, wait_s=60.0, low_s=0.0, high_s=90.0
        )
        for i in range(12)
    ]
    put_waits(store_path, *rows)
    with serving(store_path, "127.0.0.1:0") as (place, _):
        yield place.rstrip("/")


def query(browser):
    return parse_qs(urlsplit(browser.run("location.href")).query)


def test_every_page_is_whole_without_the_script_and_quiet_with_it(browser, site):
    for address in ADDRESSES:
        for script in (False, True):
            for width in (390, 1024, 1440):
                browser.look(site + address, width=width, script=script, dark=width == 1024)
                overflow = browser.run("document.documentElement.scrollWidth - innerWidth")
                assert overflow <= 0, (address, width)
            tools = browser.run("document.querySelectorAll('.tool').length")
            assert script or tools == 0, address
    assert browser.console == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_wide_table_shows_on_a_phone_that_it_goes_on(browser, site, dark):
    shade = "getComputedStyle(document.querySelector('.scroll')).backgroundAttachment"
    for width, shown in ((390, "local, scroll"), (1024, "scroll")):
        browser.look(f"{site}/queue", width=width, dark=dark, script=False)
        assert browser.run(shade) == shown
    browser.look(f"{site}/queue", width=390, script=False)
    browser.send("Emulation.setEmulatedMedia", media="print")
    assert browser.run(shade) == "scroll", "print has no shade"
    browser.send("Emulation.setEmulatedMedia", media="")


def test_a_line_to_paste_is_copied(browser, site):
    browser.look(f"{site}/mine")
    line = "#SBATCH --comment=nimo:app=NAME"
    browser.run("navigator.clipboard.writeText = async text => { window.got = text; }")
    browser.press("ol .copy")
    browser.until("window.got", line)
    browser.until("document.querySelector('ol .copy').textContent", "Copied")
    assert browser.run("document.querySelector('body > [role=status]').textContent").endswith(line)


def test_without_a_clipboard_a_line_is_copied_all_the_same(browser, site):
    browser.look(f"{site}/mine")
    browser.run("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    browser.run("document.addEventListener('copy', () => { window.got = `${getSelection()}`; })")
    browser.press("ol .copy")
    browser.until("document.querySelector('ol .copy').textContent", "Copied")


VISIBLE = "[...document.querySelectorAll('.of-outlook tbody tr')].filter(r => !r.hidden).length"


def test_a_long_table_has_a_filter_that_the_address_keeps(browser, site):
    browser.look(f"{site}/queue")
    assert browser.run(VISIBLE) == 12
    browser.run("document.querySelector('#filter-outlook').focus()")
    browser.keys(*"PART07")
    browser.until(VISIBLE, 1)
    assert browser.run("document.querySelector('.filter span').textContent") == "1 of 12 rows"
    assert query(browser)["filter-outlook"] == ["PART07"]
    browser.look(browser.run("location.href"))
    assert browser.run(VISIBLE) == 1
    browser.run("document.querySelector('#filter-outlook').value = ''")
    browser.run("document.querySelector('#filter-outlook').dispatchEvent(new Event('input'))")
    assert browser.run(VISIBLE) == 12
    assert query(browser) == {}


VALUES = "document.querySelector('.values').textContent"


def test_a_curve_tells_its_values_to_pointer_and_keys(browser, site):
    browser.look(f"{site}{APPLICATION}a1")
    assert "arrow keys" in browser.run(VALUES)
    titles = browser.run(
        "[...document.querySelector('figure').querySelectorAll('.spot title')]"
        ".map(title => title.textContent)"
    )
    assert titles[0].startswith("1 node: ")
    assert all("90 % of runs: " in title for title in titles)
    browser.run("document.querySelector('figure svg').scrollIntoView()")
    box = browser.run(
        "(b => [b.x + b.width / 2, b.y + b.height / 2])"
        "(document.querySelectorAll('.spot')[2].getBoundingClientRect())"
    )
    browser.point(*box)
    assert browser.run(VALUES) == titles[2]
    browser.run("document.querySelector('figure svg').focus()")
    browser.keys("End")
    assert browser.run(VALUES) == titles[-1]
    browser.keys("ArrowLeft")
    assert browser.run(VALUES) == titles[-2]
    browser.keys("Escape")
    assert "arrow keys" in browser.run(VALUES)


def test_a_list_follows_the_form_above_it(browser, site):
    browser.look(f"{site}/applications?order=application")
    browser.run("document.querySelector('#q').focus()")
    browser.keys(*"app07")
    browser.until("document.querySelectorAll('.of-catalogue tbody tr').length", 1)
    assert "1 application" in browser.run(
        "document.querySelector('main [role=status]').textContent"
    )
    assert query(browser)["q"] == ["app07"]
    assert query(browser)["order"] == ["application"]


def test_a_slider_shows_what_another_count_means(browser, site):
    browser.look(f"{site}{APPLICATION}a1")
    browser.run(
        "(s => { s.value = 2; s.dispatchEvent(new Event('input', {bubbles: true})); })"
        "(document.querySelector('input[type=range]'))"
    )
    browser.until("document.querySelector('#what-if').dataset.size", "2")
    assert browser.run("document.querySelector('#count').value") == "2"
    assert query(browser)["count"] == ["2"]
    assert browser.run("document.querySelector('#what-if p').textContent").startswith("On 2 nodes")
    browser.look(browser.run("location.href"), script=False)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("document.querySelector('#what-if').dataset.size") == "2"


CLOCK = "window.setInterval = (step, each_ms) => { window.step = step; window.each_ms = each_ms; }"


@pytest.fixture
def clock(browser):
    """Time stands still: ``step()`` in the page is what would be done every so often."""
    made = browser.send("Page.addScriptToEvaluateOnNewDocument", source=CLOCK)
    yield
    browser.send("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])


ROW = "document.querySelector('.of-outlook tbody th').textContent"
LATER = "Date.now = (now => () => now() + 60000)(Date.now)"


def test_the_queue_is_renewed_while_somebody_looks(browser, clock, site, store_path):
    browser.look(f"{site}/queue")
    assert browser.run("each_ms") == 30000
    wait = {"limit_s": 3600.0, "wait_s": 60.0, "low_s": 0.0, "high_s": 90.0}
    put_waits(store_path, PartitionWait(partition="fresh", nodes=4, **wait))
    browser.run(LATER)
    browser.run("step()")
    browser.until(ROW, "fresh")
    # A part of the page that has the focus is not replaced.
    put_waits(store_path, PartitionWait(partition="fresher", nodes=4, **wait))
    browser.run("document.querySelector('#outlook a, #outlook .scroll').focus()")
    browser.run(LATER)
    browser.run("step()")
    assert browser.run(ROW) == "fresh"
    browser.run("document.activeElement.blur()")
    browser.press(".updates button")
    assert query(browser)["updates"] == ["no"]
    browser.run(LATER)
    browser.run("step()")
    assert browser.run(ROW) == "fresh"
    browser.press(".updates button")
    browser.until(ROW, "fresher")
    assert query(browser) == {}


PLACES = (
    "[...document.querySelectorAll('svg .spot')].filter(s => ['4', '16'].includes(s.dataset.key))"
    ".map(s => s.getBoundingClientRect()).map(b => [b.x + b.width / 2, b.y + b.height / 2])"
)


def test_a_part_of_a_curve_is_seen_larger_by_pointer_and_keys(browser, site):
    svg = "document.querySelector('figure svg')"
    ends = f"[...{svg}.querySelectorAll('.spot')].map(s => s.dataset.key)"
    browser.look(f"{site}{APPLICATION}a1")
    browser.run(f"{svg}.scrollIntoView({{block: 'center'}})")
    (left, top), (right, low) = browser.run(PLACES)
    browser.point(left, top)
    mouse = {"button": "left", "clickCount": 1, "buttons": 1}
    for kind, x, y in (("Pressed", left, top), ("Moved", right, low), ("Released", right, low)):
        browser.send("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **mouse)
    browser.until("location.search.includes('zoom=4..16') && document.readyState", "complete")
    shown = browser.run(ends)
    assert (shown[0], shown[-1]) == ("4", "16")
    browser.run(
        "for (const [type, key, shiftKey] of [['keydown', 'ArrowRight', false],"
        " ['keydown', 'ArrowRight', true], ['keydown', 'ArrowRight', true],"
        " ['keyup', 'Shift', false]])"
        f"{svg}.dispatchEvent(new KeyboardEvent(type, {{key, shiftKey, bubbles: true}}))"
    )
    browser.until("location.search.includes('zoom=4..6') && document.readyState", "complete")
    browser.press("p a[href*='application?']")
    browser.until("!location.search.includes('zoom') && document.readyState", "complete")
    assert browser.run(ends)[0] == "1"


def test_a_new_job_is_moved_through_the_queue(browser, site, store_path):
    wait = {"limit_s": 3600.0, "low_s": 0.0, "high_s": 9000.0}
    rows = [PartitionWait(partition="batch", nodes=n, wait_s=900.0 * n, **wait) for n in (1, 4)]
    put_waits(store_path, *rows, uses=[use_of("batch")])
    lane = "[...document.querySelectorAll('#outlook svg text')].map(t => t.textContent).join()"
    browser.look(f"{site}/queue")
    assert "New job, 1 node for 1 h: in 15 min" in browser.run(lane)
    browser.run(
        "(one => { one.value = 3; one.dispatchEvent(new Event('input', {bubbles: true})); })"
        "(document.querySelector('input[type=range]'))"
    )
    browser.until(f"{lane}.includes('New job, 3 nodes for 1 h: in 1 h')")
    assert query(browser) == {"nodes": ["3"], "limit": ["1"]}


def test_what_is_old_is_said_to_be_so(browser, clock, site):
    browser.look(f"{site}/queue")
    browser.run("window.fetch = async () => { throw new TypeError('no network'); }")
    browser.run(LATER)
    browser.run("step()")
    browser.until("document.querySelector('.updates span').textContent.includes('is old')")
    assert browser.run("document.querySelectorAll('.of-outlook tbody tr').length") == 12
