"""The page on the policy has every setting of it."""

import re
from pathlib import Path

from msgspec.structs import fields

from slurm_plugin.config.settings import Band, Policy, TimeLimit

PAGE = (Path(__file__).parents[3] / "docs" / "policy.md").read_text()


def test_every_setting_is_there():
    table = PAGE.partition("## Settings")[2]
    names = [field.name for kind in (Policy, TimeLimit, Band) for field in fields(kind)]
    assert [name for name in names if not re.search(rf"\b{name}`", table)] == []
