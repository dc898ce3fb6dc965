"""The papers' tables and figures as far as they can be made here, beside the published numbers.

Measured and simulated are kept apart: each title says which it is.  Plots go to ``--directory``
(build/papers).  Recordings are in ``benchmarks/recordings``, see ``_recordings.py``: kernels like
those of the NAS parallel benchmarks, and links with probes and transfers.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import _bench

Rows = Sequence[Mapping[str, Any]]
#: Modules with the figures of one paper each: ``figures(directory, quick=...)`` makes its tables.
PAPERS = (
    *("_adept_figures", "_adrm_figures", "_aprof_figures"),
    *("_nimo_figures", "_placement_figures"),
)


def main() -> None:
    """Make every figure, print every table."""
    parser = _bench.options(str(__doc__), data="CSV with strong-scaling curves, for ADEPT")
    parser.add_argument("--directory", type=Path, default=Path("build/papers"), help="of the plots")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    made: dict[str, Rows] = {}
    for name in PAPERS:
        figures: Callable[..., dict[str, Rows]] = importlib.import_module(name).figures
        made |= figures(options.directory, quick=options.quick)
    if options.data:
        made |= importlib.import_module("_adept_measured").figures(options.directory, options.data)
    for title, rows in made.items():
        _bench.table(rows, title=title)
    print(f"\nPlots: {', '.join(sorted(str(path) for path in options.directory.glob('*.png')))}")
    _bench.write(options.json, tables=made)


if __name__ == "__main__":
    main()
