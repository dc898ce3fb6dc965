"""Counts the steps that a parser takes, so that tests bound its work without a clock.

Steps are the lines of Python that run, and the steps of each regular expression.  For these a
backtracking matcher in Python goes where that of :mod:`re` would go, and counts.
"""

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from re import _compiler, _parser  # the parse trees of the standard library
from types import FrameType, ModuleType
from typing import Any

from sacct_ingest.errors import NimoError

_REPEATS = (_parser.MAX_REPEAT, _parser.MIN_REPEAT, _parser.POSSESSIVE_REPEAT)
_COPIES = 50  # of a part in braces


class TooManySteps(Exception):  # noqa: N818
    """More steps than a test allows."""


class Steps:
    """A count with an upper bound."""

    def __init__(self, most: int) -> None:
        self.most, self.done = most, 0

    def add(self, steps: int = 1) -> None:
        self.done += steps
        if self.done > self.most:
            raise TooManySteps(f"more than {self.most} steps")


@contextmanager
def counting(most: int) -> Iterator[Steps]:
    """Count the lines of Python, and steps of the expressions of `instrumented` modules."""
    global _current  # noqa: PLW0603
    steps = Steps(most)

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        steps.add()
        return trace

    before, _current = sys.gettrace(), steps
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)
        _current = None


_current: Steps | None = None


def instrumented(name: str, monkeypatch: Any) -> ModuleType:
    """Load a copy of a module whose regular expressions count their steps."""
    spec = importlib.util.find_spec(name)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setattr(re, "compile", _Expression)
        # Dataclasses look their module up.
        patch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
    return module


_compile = re.compile


class _Expression:
    """A compiled expression that counts."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._real = _compile(pattern, flags)
        self._program: list[tuple[Any, ...]] | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if name not in ("match", "fullmatch", "search", "findall", "finditer", "split", "sub"):
            return method

        def counted(*given: Any, **more: Any) -> Any:
            if _current is not None:
                tracer = sys.gettrace()
                sys.settrace(None)
                try:
                    self._count(name, _current, *(given[1:] if name == "sub" else given))
                finally:
                    sys.settrace(tracer)
            return method(*given, **more)

        return counted

    def _count(self, method: str, steps: Steps, text: Any, position: int = 0, *_: Any) -> None:
        program = self._program = self._program or compiled(self._real)
        anchored, once = method in ("match", "fullmatch"), method == "search"
        while position <= len(text):
            steps.add()
            end = run(program, text, position, steps, whole=method == "fullmatch")
            if anchored or (once and end is not None):
                return
            position = position + 1 if end is None or end == position else end


def compiled(expression: re.Pattern[Any]) -> list[tuple[Any, ...]]:
    """Give the program of an expression for `run`."""
    tree = _parser.parse(expression.pattern, expression.flags & ~re.DEBUG)
    program: list[tuple[Any, ...]] = []
    _emit(tree, program, tree.state)
    return [*program, ("match",)]


def _emit(tree: Any, program: list[tuple[Any, ...]], state: Any) -> None:
    for node in tree:
        kind, value = node
        if kind is _parser.SUBPATTERN:
            _emit(value[3], program, state)
        elif kind is _parser.BRANCH:
            _emit_branch(value[1], program, state)
        elif kind in _REPEATS:
            _emit_repeat(kind, *value, program, state)
        elif kind in (_parser.ASSERT, _parser.ASSERT_NOT):
            part: list[tuple[Any, ...]] = []
            _emit(value[1], part, state)
            program.append(("look", [*part, ("match",)], kind is _parser.ASSERT, value[0]))
        elif kind is _parser.AT:
            program.append(("at", _single(node, state)))
        else:
            program.append(("char", _single(node, state), {}))


def _emit_branch(choices: Any, program: list[tuple[Any, ...]], state: Any) -> None:
    leave = []
    for choice in choices:
        split = len(program)
        program.append(())
        _emit(choice, program, state)
        leave.append(len(program))
        program.append(())
        program[split] = ("split", split + 1, len(program))
    program.append(("fail",))
    for place in leave:
        program[place] = ("jump", len(program))


def _emit_repeat(
    kind: Any, low: int, high: Any, part: Any, program: list[tuple[Any, ...]], state: Any
) -> None:
    if kind is _parser.POSSESSIVE_REPEAT:
        inner: list[tuple[Any, ...]] = []
        _emit_repeat(_parser.MAX_REPEAT, low, high, part, inner, state)
        program.append(("atomic", [*inner, ("match",)]))
        return
    for _ in range(min(low, _COPIES)):
        _emit(part, program, state)
    if high is _parser.MAXREPEAT:
        split = len(program)
        program.append(())
        _emit(part, program, state)
        program.append(("jump", split))
        program[split] = _split(kind, split + 1, len(program))
        return
    splits = []
    for _ in range(min(high - low, _COPIES)):
        splits.append(len(program))
        program.append(())
        _emit(part, program, state)
    for split in splits:
        program[split] = _split(kind, split + 1, len(program))


def _split(kind: Any, into: int, past: int) -> tuple[Any, ...]:
    return ("split", into, past) if kind is _parser.MAX_REPEAT else ("split", past, into)


def _single(node: Any, state: Any) -> re.Pattern[Any]:
    return _compiler.compile(_parser.SubPattern(state, [node]), state.flags)


def run(  # noqa: C901 - an interpreter
    program: list[tuple[Any, ...]], text: Any, position: int, steps: Steps, *, whole: bool = False
) -> int | None:
    """End of a match that begins at ``position``; None: there is none."""
    stack = [(0, position)]
    while stack:
        at, position = stack.pop()
        while True:
            steps.add()
            step = program[at]
            kind = step[0]
            if kind == "char":
                if position >= len(text) or not _fits(step, text[position : position + 1]):
                    break
                at, position = at + 1, position + 1
            elif kind == "split":
                stack.append((step[2], position))
                at = step[1]
            elif kind == "jump":
                at = step[1]
            elif kind == "at":
                if step[1].match(text, position) is None:
                    break
                at += 1
            elif kind == "look":
                start = position if step[3] > 0 else position - 1
                ends = run(step[1], text, start, steps) if start >= 0 else None
                if (ends is not None) is not step[2]:
                    break
                at += 1
            elif kind == "atomic":
                ends = run(step[1], text, position, steps)
                if ends is None:
                    break
                at, position = at + 1, ends
            elif kind == "match" and (not whole or position == len(text)):
                return position
            else:
                break
    return None


def _fits(step: tuple[Any, ...], character: Any) -> bool:
    result = step[2].get(character)
    if result is None:
        result = step[2][character] = step[1].match(character) is not None
    return bool(result)


def steps_of(parse: Callable[[str], object], text: str, most: int) -> int:
    """Steps of one call; that the text is refused is an answer, too.

    Raises TooManySteps: it takes more than ``most``.
    """
    with counting(most) as steps, suppress(ValueError, NimoError):
        parse(text)
    return steps.done
