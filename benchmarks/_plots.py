"""What every figure of a paper does the same way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt


@contextmanager
def panels(path: Path, count: int, title: str, *, columns: int = 3) -> Iterator[list[Any]]:
    """Give so many axes, and write the figure when they are drawn."""
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.2 * columns, 3.2 * rows), squeeze=False, layout="constrained"
    )
    figure.suptitle(title)
    every = list(axes.flat)
    for unused in every[count:]:
        unused.set_visible(False)
    yield every[:count]
    figure.savefig(path, dpi=90)
    plt.close(figure)
