"""What every benchmark does the same way: its options, its table, its JSON."""

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Mapping[str, Any]]


def options(description: str, *, data: str | None = None) -> argparse.ArgumentParser:
    """Parser with ``--quick`` and ``--json``, and ``--data`` where ``data`` says what it is."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats, smaller sizes")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here as JSON")
    if data:
        parser.add_argument("--data", type=Path, metavar="FILE", help=data)
    return parser


def table(rows: Rows, *, title: str = "") -> None:
    """Print rows of equal keys as a Markdown table; numbers in four significant digits."""
    if title:
        print(f"\n## {title}\n")
    if not rows:
        print("(nothing measured)")
        return
    heads = list(rows[0])
    cells = [heads, *([_cell(row.get(head)) for head in heads] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
    for number, line in enumerate(cells):
        print("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (w + 2) for w in widths) + "|")


def write(path: Path | None, **figures: Any) -> None:
    """Write the figures and the machine they were measured on; nothing without a path."""
    if path is None:
        return
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, **figures}, indent=1, default=float) + "\n")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
