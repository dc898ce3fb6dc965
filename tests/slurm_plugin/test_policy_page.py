"""The page on the policy has every reason and every setting, in their own words."""

import re
from pathlib import Path

from msgspec.structs import fields

from slurm_plugin.config import Band, Policy, TimeLimit
from slurm_plugin.reasons import Reason

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()


def test_the_table_of_reasons_is_that_of_the_code():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.partition("## Reasons")[2], re.MULTILINE)
    assert rows == [(reason.value, reason.text) for reason in Reason]


def test_every_setting_is_there():
    table = PAGE.partition("## Settings")[2].partition("## Reasons")[0]
    names = [field.name for kind in (Policy, TimeLimit, Band) for field in fields(kind)]
    assert [name for name in names if not re.search(rf"\b{name}`", table)] == []
