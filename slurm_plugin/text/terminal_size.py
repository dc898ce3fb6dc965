"""How wide the terminal is.  Imports nothing heavy: every help needs it."""

import os
import sys

WIDTH = 80  #: of output that goes to no terminal


def terminal_width() -> int:
    """Columns of the terminal on standard output; `WIDTH` where it is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH
