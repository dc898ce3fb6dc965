"""What is printed: no text of a user's drives a terminal, whichever way it gets there.

Names of jobs, comments and file names are their users' own.  Control characters in them (ESC, and
U+009B, which is as good as ``ESC [``) command a terminal; format characters (U+202E) turn text
around.  All of standard output and standard error goes through `SafeStream`, and what rich lays out
through `SafeConsole`, with `printable` doing the work in both.
"""

from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from slurm_plugin.text.formatting import printable

if TYPE_CHECKING:
    from rich.console import Console


class SafeStream:
    """A text stream that only takes printable characters and ends of lines; others become spaces.

    stream: where the text goes; all but `write` and `writelines` is its own.
    """

    def __init__(self, stream: TextIO) -> None:
        self.unfiltered = stream

    def write(self, text: str) -> int:
        """Write a text."""
        self.unfiltered.write(printable_lines(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


def printable_lines(text: str) -> str:
    r"""Text of several lines with only printable characters in them.

    >>> printable_lines("a\nb\x9b2J\u202e")
    'a\nb 2J '
    """
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def json_text(value: object) -> str:
    r"""JSON of a value, in which everything is printable: the rest is escaped, so nothing is lost.

    >>> json_text(["\x9b2J", "\u202e", "ä"])
    '["\\u009b2J","\\u202e","ä"]'
    """
    import msgspec  # noqa: PLC0415

    text = msgspec.json.encode(value).decode()
    if text.isprintable():
        return text
    import json  # noqa: PLC0415 - hardly ever

    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def unfiltered(stream: TextIO) -> TextIO:
    """Stream behind a `SafeStream`, for what has control characters of our own: colours."""
    return stream.unfiltered if isinstance(stream, SafeStream) else stream


class Heading(str):
    """A part of what is printed that terminals show bold."""

    __slots__ = ()


def safe_console(stream: TextIO, **options: Any) -> "Console":
    """Make a console of rich's on a stream, whose texts are printable.

    options: as for :class:`rich.console.Console`.
    """
    from rich.console import Console, RenderableType  # noqa: PLC0415 - heavy
    from rich.segment import Segment  # noqa: PLC0415

    class SafeConsole(Console):
        """When its reader is gone, it ends as all commands do."""

        def render(self, renderable: RenderableType, options: Any = None) -> Iterable[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable_lines(text), style, control)

        def on_broken_pipe(self) -> None:
            """Leave it to `slurm_plugin.cli.exit_status`."""
            raise BrokenPipeError

    return SafeConsole(file=cast("IO[str]", unfiltered(stream)), **options)
