"""docs/learning.md tells every setting of learning, its default and its other values."""

import re
from enum import StrEnum
from pathlib import Path

from predictor.occupancy.active.settings import LearnerSettings

PAGE = Path(__file__).parents[4] / "docs" / "learning.md"
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| ?(.*?) ?\| .+ \|$", re.MULTILINE)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_the_page_has_every_setting_with_its_default_and_the_other_choices():
    rows = {
        name: (default.strip("`"), set(re.findall(r"`([^`]+)`", also)))
        for name, default, also in ROW.findall(PAGE.read_text())
        if name in LearnerSettings.__struct_fields__
    }
    expected = LearnerSettings()
    for name in LearnerSettings.__struct_fields__:
        default = getattr(expected, name)
        reported, also = rows[name]
        assert reported == _text(default)
        if isinstance(default, StrEnum):
            assert {reported, *also} == {one.value for one in type(default)}
