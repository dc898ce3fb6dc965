"""A curve as SVG, PNG or PDF, for reports and papers; needs the extra ``plot``."""

import math
from pathlib import Path
from typing import Any

from sacct_ingest.errors import PlotError
from slurm_plugin.reports.picture import Picture, node_ticks, time_ticks
from slurm_plugin.text.formatting import duration, percent

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise PlotError(
        "Matplotlib is not installed; 'pip install nimo-slurm[plot]' installs it"
    ) from error

# Okabe and Ito's colours: apart for colour-blind readers, and by their lightness in grey print;
# markers and dashes differ as well.
_CURVE, _BAND, _RECOMMENDED, _OBSERVE = "#0072B2", "#BBDDF0", "#D55E00", "#CC79A7"
_OBSERVED, _RANGE, _GUIDE = "#000000", "#E8E8E8", "#555555"
_INCHES = (6.4, 4.6)  #: one column of a page, text of 9 points stays readable
_STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "text.parse_math": False,  # a job's name may hold dollars
    "svg.fonttype": "none",  # text stays text: searched, selected, read aloud
    "svg.hashsalt": "nimo",  # equal pictures are equal files
}


def save(picture: Picture, path: Path) -> None:
    """Draw a curve into a file; its suffix sets the format.

    Raises PlotError: the file cannot be written.
    """
    with mpl.rc_context(_STYLE):
        figure = draw(picture)
        # A file that changes with the clock would differ in every commit of a report.
        metadata = {"Date": None} if path.suffix == ".svg" else None
        try:
            figure.savefig(path, dpi=200, metadata=metadata)
        except OSError as error:
            raise PlotError(f"{path}: {error.strerror or error}") from error


def draw(picture: Picture) -> Figure:
    """Make the figure of a curve."""
    figure = Figure(figsize=_INCHES, layout="constrained")
    axes = figure.add_subplot()
    axes.set(
        xscale="log",
        yscale="log",
        xlabel=picture.unit.plural,
        ylabel="run time",
        title=picture.title,
    )
    _curve(axes, picture)
    _observations(axes, picture)
    _marks(axes, picture)
    _ticks(axes, picture)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    return figure


def _curve(axes: Axes, picture: Picture) -> None:
    first, last = picture.observed_range
    axes.axvspan(first, last, color=_RANGE, zorder=0, label="observed range")
    interval = f"{percent(picture.confidence)} of runs"
    axes.fill_between(
        picture.nodes, picture.low_s, picture.high_s, color=_BAND, linewidth=0, label=interval
    )
    inside = [i for i, n in enumerate(picture.nodes) if first <= n <= last]
    axes.plot(picture.nodes, picture.median_s, "--", color=_CURVE, linewidth=1.2)
    axes.plot(
        [picture.nodes[i] for i in inside],
        [picture.median_s[i] for i in inside],
        color=_CURVE,
        linewidth=1.8,
        label="predicted (dashed beyond)",
    )


def _observations(axes: Axes, picture: Picture) -> None:
    """Median of each node count, and one standard deviation of its repeats either way."""
    times = [p.time_s for p in picture.observed]
    # The spread is that of log time: a factor.
    factors = [math.exp(p.spread) for p in picture.observed]
    below = [t - t / f for t, f in zip(times, factors, strict=True)]
    above = [t * f - t for t, f in zip(times, factors, strict=True)]
    axes.errorbar(
        [p.nodes for p in picture.observed],
        times,
        yerr=(below, above),
        fmt="o",
        color=_OBSERVED,
        markersize=4.5,
        capsize=2.5,
        linewidth=1,
        label="observed, with spread",
    )


def _marks(axes: Axes, picture: Picture) -> None:
    if picture.knee:
        axes.axvline(picture.knee, color=_GUIDE, linestyle=":", label=f"knee: {picture.knee}")
    for nodes, marker, color, text in (
        (picture.recommended, "D", _RECOMMENDED, "recommended"),
        (picture.observe, "^", _OBSERVE, "observe next"),
    ):
        if nodes:
            height = picture.median_at(nodes) or picture.limits()[2]
            axes.plot(
                nodes,
                height,
                marker,
                color=color,
                markersize=8,
                markeredgecolor=_OBSERVED,
                markeredgewidth=0.6,
                label=f"{text}: {nodes}",
            )


def _ticks(axes: Axes, picture: Picture) -> None:
    first, last, low, high = picture.limits()
    room = (last / first) ** 0.03 or 1.0
    axes.set_xlim(first / max(room, 1.05), last * max(room, 1.05))
    axes.set_ylim(low / 1.1, high * 1.1)
    counts, times = node_ticks(first, last), time_ticks(low, high)
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.set_yticks(times, [duration(t) for t in times])
    axes.minorticks_off()
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.5)
    axes.set_axisbelow(True)
