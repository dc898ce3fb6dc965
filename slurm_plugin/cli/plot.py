"""The option ``--plot``: a curve drawn on the terminal or into a file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import PlotError
from slurm_plugin.cli.command_context import Options
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from slurm_plugin.reports.picture import Picture

TERMINAL = "-"
SUFFIXES = (".svg", ".png", ".pdf")
_WIDEST = 100  #: columns beyond which a curve does not get clearer
_ROWS = 25  #: of a curve on the terminal, its labels counted


def add_plot(add: Options) -> None:
    """Add ``--plot``."""
    add(
        "--plot FILE",
        "draw the curve: on the terminal, or into FILE (.svg, .png or .pdf)",
        nargs="?",
        const=TERMINAL,
    )


def is_file(word: str) -> bool:
    """Whether a word after ``--plot`` is its file, not the next argument."""
    return word.lower().endswith(SUFFIXES)


def show(picture: "Picture", target: str) -> None:
    """Draw a picture where ``--plot`` said.

    Raises PlotError: it cannot be drawn or written there.
    """
    if target != TERMINAL and not is_file(target):
        raise PlotError(f"{target}: a picture's name ends in {', '.join(SUFFIXES)}")
    # Drawing is loaded when it is asked for: nimo-advise answers fast without it.
    from slurm_plugin.reports import curve_chart  # noqa: PLC0415

    if target != TERMINAL:
        from slurm_plugin.reports import chart_file  # noqa: PLC0415

        chart = curve_chart.curve(
            picture, width=chart_file.FILE_WIDTH, height=chart_file.FILE_HEIGHT
        )
        sheet = chart_file.sheet([chart], picture.title, picture.caption)
        chart_file.save(sheet, Path(target))
        return
    from slurm_plugin.reports import terminal_chart  # noqa: PLC0415

    size = terminal_chart.size_of(min(terminal_width(), _WIDEST), _ROWS)
    text = terminal_chart.draw(curve_chart.curve(picture, **size), picture.caption)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError as error:
        raise PlotError(
            f"this terminal's encoding, {error.encoding}, cannot show the drawing; "
            "--plot=curve.svg writes a file"
        ) from error
    print(text)
