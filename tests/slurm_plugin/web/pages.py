"""Pages to look at: an address of each, and what their text is."""

import re

from tests.slurm_plugin.reports import test_headline_and_html as html

APPLICATION = "/application?level=line&key="
#: One address of every page.
ADDRESSES = [
    "/", "/mine", "/report?days=30", "/applications",
    "/applications?q=wrf&group=all&verdict=reliable&order=runs&reverse=yes",
    f"{APPLICATION}a1", f"{APPLICATION}b2&counts=all", "/application?level=tag&key=bob/ocean/d01",
    "/decisions", "/decisions?user=bob&partition=long&mode=observe&reason=array&level=line&key=b1",
    "/decision?id=bbbbbbbbbbbb", "/queue", "/savings", "/report", "/replay",
]  # fmt: skip


class Tags(html.Tags):
    def all(self, name, attribute):
        return [str(a[attribute]) for tag, a in self.found if tag == name and attribute in a]


def listed(text):
    return re.findall(r'<th scope="row" class="left"><a href="[^"]*"><bdi>([^<]*)</bdi>', text)
