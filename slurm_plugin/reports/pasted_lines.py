"""The lines to paste of an advice, where sbatch goes by something else.  Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slurm_plugin.protocol.advice_messages import Advice

_DIRECTIVE = "#SBATCH "


def for_command(advice: Advice, typed: Iterable[str]) -> Advice:
    """Give the advice with lines that count beside a command line.

    A job of ``--wrap`` has no script to paste into, and options of the command line outrank those
    of the script.

    typed: long names of the options on the command line.
    """
    names = set(typed)
    lines = "\n".join((advice.directive, advice.memory_directive, advice.time_directive))
    words = " ".join(line.removeprefix(_DIRECTIVE) for line in lines.split("\n") if line)
    if not words:
        return advice
    if "wrap" in names:
        text = f"Options for sbatch:\n{words}"
        if not advice.directive:
            return replace(advice, memory_directive="", time_directive=text)
        return replace(advice, directive=text, memory_directive="", time_directive="")
    advised = (word.partition("=")[0].removeprefix("--") for word in words.split())
    outranking = [f"--{name}" for name in advised if name in names]
    if not outranking:
        return advice
    verb = "outranks" if len(outranking) == 1 else "outrank"
    note = f"{' and '.join(outranking)} of the command line {verb} the script: leave out or change."
    return replace(advice, script_text="\n".join(filter(None, (advice.script_text, note))))
