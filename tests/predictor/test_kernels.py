"""Tests of choices between computed numbers run under the kernels of each processor, too."""

from pathlib import Path

import predictor
from predictor import checks

PACKAGE = Path(predictor.__file__).parent
MARK = "pytestmark = pytest.mark.kernels\n"


def test_what_compares_computed_numbers_is_marked():
    marked = [
        text
        for path in Path(__file__).parent.rglob("test_*.py")
        if MARK in (text := path.read_text())
    ]
    choosing = [path for path in PACKAGE.rglob("*.py") if "comparable(" in path.read_text()]
    choosing.remove(Path(checks.__file__))
    assert choosing
    for path in choosing:
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        assert any(f"from {module} import" in text for text in marked), module
