"""A curve as SVG, PNG or PDF, for reports and papers; needs the extra ``plot``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sacct_ingest.errors import PlotError, how_to_install, system_errors
from sacct_ingest.text.durations import duration_text
from slurm_plugin.reports import picture as marks

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise PlotError(f"Matplotlib is not installed; {how_to_install('plot')}") from error

_INK, _GUIDE = "#000000", "#555555"
_INCHES = (6.4, 4.6)  #: one column of a page, text of 9 points stays readable
_STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "text.parse_math": False,  # a job's name may hold dollars
    "svg.fonttype": "none",  # text stays text: searched, selected, read aloud
    "svg.hashsalt": "nimo",  # equal pictures are equal files
}


_RUNS = {marks.RUN: _GUIDE, marks.TRY: marks.COLOURS["third"]}
#: Marker and colour; markers and dashes tell apart what grey print does not.
_MARKERS = {
    marks.RECOMMENDED: ("D", "second"),
    marks.NEXT_RUN: ("^", "third"),
    marks.ASKED: ("s", "change"),
}


def save(picture: marks.Picture, path: Path) -> None:
    """Draw a curve into a file; its suffix sets the format.

    Raises PlotError: the file cannot be written.
    """
    write(lambda: draw(picture), path)


def write(make: Callable[[], Figure], *paths: Path) -> None:
    """Write a figure into files. Raises PlotError: a file cannot be written."""
    with mpl.rc_context(_STYLE):
        figure = make()
        for path in paths:
            # A file that changes with the clock would differ in every commit of a report.
            metadata = {"Date": None} if path.suffix == ".svg" else None
            with system_errors(PlotError, path):
                figure.savefig(path, dpi=200, metadata=metadata)


def empty(inches: tuple[float, float] = _INCHES) -> Figure:
    """Make a figure without axes."""
    return Figure(figsize=inches, layout="constrained")


def draw(picture: marks.Picture) -> Figure:
    """Make the figure of a curve."""
    figure = empty()
    axes = figure.add_subplot()
    axes.set(xscale="log", yscale="log", xlabel=picture.unit.plural, ylabel="run time")
    axes.set_title("\n".join(filter(None, (picture.title, picture.caption))))
    _curve(axes, picture)
    times = [p.time_s for p in picture.observed]
    spreads = [picture.spread(p) for p in picture.observed]
    # One standard deviation of the repeats either way.
    below = [t - low for t, (low, _) in zip(times, spreads, strict=True)]
    above = [high - t for t, (_, high) in zip(times, spreads, strict=True)]
    look: dict[str, Any] = {"fmt": "o", "markersize": 4.5, "capsize": 2.5, "linewidth": 1}
    nodes = [p.nodes for p in picture.observed]
    axes.errorbar(
        nodes, times, yerr=(below, above), color=_INK, label=picture.names[marks.OBSERVED], **look
    )
    _marks(axes, picture)
    _ticks(axes, picture)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2)
    return figure


def _curve(axes: Axes, picture: marks.Picture) -> None:
    nodes, color = picture.nodes, marks.COLOURS["first"]
    first, last = picture.observed_range
    axes.axvspan(
        first, last, color=marks.COLOURS["range"], zorder=0, label=picture.names[marks.RANGE]
    )
    names = picture.names
    band: dict[str, Any] = {"color": marks.COLOURS["band"], "label": names.get(marks.BAND)}
    axes.fill_between(nodes, picture.low_s, picture.high_s, linewidth=0, **band)
    axes.plot(nodes, picture.median_s, "--", color=color, linewidth=1.2)
    axes.plot(*picture.between(), color=color, linewidth=1.8, label=names.get(marks.PREDICTED))
    if marks.CHANGE in names:
        line: dict[str, Any] = {"color": marks.COLOURS["change"], "label": names[marks.CHANGE]}
        axes.plot(picture.asked_nodes, picture.asked_s, ":", linewidth=1.8, **line)
    for what, marker in ((marks.RUN, "o"), (marks.TRY, "x")):
        dots = [one for one in picture.runs if one[2] is (what == marks.TRY)]
        look: dict[str, Any] = {"markersize": 4, "mfc": "none", "color": _RUNS[what]}
        if dots:
            xs, ys, _ = zip(*dots, strict=True)
            axes.plot(xs, ys, marker, linewidth=0, label=names[what], **look)


def _marks(axes: Axes, picture: marks.Picture) -> None:
    edge: dict[str, Any] = {"ms": 8, "markeredgecolor": _INK, "markeredgewidth": 0.6}
    for name, nodes in picture.marks.items():
        label = picture.names[name]
        if name == marks.KNEE:
            axes.axvline(nodes, color=_GUIDE, linestyle=":", label=label)
        else:
            marker, look = _MARKERS[name]
            axes.plot(
                nodes, picture.height(nodes), marker, color=marks.COLOURS[look], label=label, **edge
            )


def _ticks(axes: Axes, picture: marks.Picture) -> None:
    first, last, low, high = picture.limits()
    room = (last / first) ** 0.03 or 1.0
    axes.set_xlim(first / max(room, 1.05), last * max(room, 1.05))
    axes.set_ylim(low / 1.1, high * 1.1)
    counts, times = marks.node_ticks(first, last), marks.time_ticks(low, high)
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.set_yticks(times, [duration_text(t) for t in times])
    axes.minorticks_off()
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.5)
    axes.set_axisbelow(True)
