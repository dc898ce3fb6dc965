"""What if it ran on another count: the same table as the page's, with and without a script."""

import re
from html import unescape
from urllib.parse import quote

import pytest

from predictor.stored_table import decode
from sacct_ingest.records import CURVE_LEVELS
from sacct_ingest.store import Store
from slurm_plugin.config.settings import Config
from tests.slurm_plugin.cli.conftest import learned
from tests.slurm_plugin.web.conftest import own

__all__ = ["learned"]


@pytest.fixture
def site(learned):
    return Config(cluster="pine", store=f"sqlite:///{learned.store}")


def applications(site):
    with Store.open(site.store_url) as store:
        return [decode(row.payload) for row in store.fits.all() if row.level in CURVE_LEVELS]


def figures(text):
    """Give what the part says, by name: value and note."""
    part = re.search('<div id="what-if".*?</dl>', text, re.DOTALL)[0]
    found = re.findall("<dt>(.*?)</dt><dd>(.*?)<small>(.*?)</small>", part)
    return {unescape(name): (unescape(value), unescape(note)) for name, value, note in found}


def rows(text):
    """Give the rows of the table of counts, by count."""
    table = re.search('<table class="of-counts">.*?</table>', text, re.DOTALL)[0]
    cells = [re.findall("<bdi>(.*?)</bdi>", row) for row in table.split("<tr>")[2:]]
    return {row[0]: [unescape(one) for one in row[1:]] for row in cells}


def test_each_count_means_what_the_table_says_of_it(ask, site):
    seen = 0
    for one in applications(site):
        address = f"/application?level={one.level}&key={quote(one.key)}&counts=all"
        text = ask(address, of=site).text
        if 'id="what-if"' not in text:
            continue
        for size, (time, interval, node_hours, *_, limit, _) in list(rows(text).items())[:6]:
            told = figures(ask(f"{address}&count={size}", of=site).text)
            assert told["Run time"][0] == time
            assert told["90 % of runs"][0] == interval
            assert told["Node-hours"][0] == node_hours
            assert (told["Time limit"][0] == "your own") == (limit == "-")
            seen += 1
    assert seen > 6


def test_a_count_that_nothing_is_predicted_for_is_the_nearest_one(ask, site):
    one = next(table for table in applications(site) if len(table.nodes) > 2)
    address = f"/application?level={one.level}&key={quote(one.key)}"
    text = ask(f"{address}&count=999999", of=site).text
    most = re.search('id="count" name="count" min="1" max="([0-9]+)" value="([0-9]+)"', text)
    assert most[1] == most[2]
    assert ask(f"{address}&count=many", of=site).status_code == 400
    assert ask(f"{address}&count=0", of=site).status_code == 400


def test_a_user_chooses_among_own_applications_only(ask, site):
    text = ask("/mine", "ada", own("ada"), of=site).text
    choices = re.findall('<option value="((?:line|script|tag):[^"]*)"', text)
    assert len(choices) > 1
    assert f'<option value="{choices[0]}" selected>' in text
    other = ask(f"/mine?application={quote(choices[1])}&count=2", "ada", own("ada"), of=site).text
    assert f'<option value="{choices[1]}" selected>' in other
    assert "On 2 " in other
    strange = ask(f"/mine?application={quote(choices[1])}", "eve", own("eve"), of=site).text
    assert "what-if" not in strange
