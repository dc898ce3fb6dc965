"""aprof's errors within a cluster and across clusters, beside the paper's (section 6)."""

from pathlib import Path
from typing import Any

import _unlike_networks
from aprof_accuracy import rows_of, simulations


def figures(directory: Path, *, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Make the tables; there is no figure."""
    del directory
    rows = [
        row
        for test, result in simulations(1 if quick else 10).items()
        for row in rows_of(test, result)
    ]
    return {
        "aprof, within and across clusters: two simulated clusters": rows,
        "aprof, a form with the network: errors in percent on the next type, synthetic": (
            _unlike_networks.table(2 if quick else 25)
        ),
    }
