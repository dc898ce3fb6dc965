"""Which words of a submission may name files that its job reads.

Arguments of the script, its standard input (``-i``), and words of its text: of commands, here-
documents and what workflow engines write into their scripts.  Nothing is looked at here: most words
of a text are no files, and patterns (``data/*.bam``) stay as they are.  ``nimo_words.lua`` follows
the same rules, and both are held against ``tests/data/input-words.json``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

#: An option of Snakemake's plugin for Slurm: behind it are all tasks of an array but the first.
PACKED: Final = "--slurm-jobstep-array-execs"
#: Files and folders of one job that are looked at, and what is read of its script.
MOST: Final = 64
_MOST_TEXT: Final = 16 * 1024
_LONGEST: Final = 1024
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_VARIABLE = re.compile(r"\$\{?([A-Za-z0-9_]+)\}?")
_REDIRECTED = re.compile(r"&?>+[&|]?[ \t]*[^ \t;|&<>]*")
_HERE = re.compile(r"<<-?[ \t]*[\"']?([A-Za-z_][A-Za-z0-9_]*)")
_BLANKS = str.maketrans("<(){}[]`\t\r", " " * 10, "\"'")
#: What a word of a text has that may be a file's name.
_FILE = re.compile(r"/|\.[A-Za-z]")
_ENDING = re.compile(r"\.[A-Za-z][^/]*$")
_NO_FILE = re.compile(r"[$`\x00-\x1f\x7f]|://")
#: Folders of the system, and patterns for the root's.
_SYSTEM = re.compile(r"/(?:(?:dev|proc|sys|usr|bin|sbin|lib|lib64|etc|run)/|[^/]*[*?])")
#: What stands for all files of a folder.
_EVERYTHING = re.compile(r"/[*?.]*[*?][*?.]*$")
#: Words before a command, and commands whose words are no inputs.
_BEFORE = frozenset({"export", "local", "readonly", "declare", "do", "then", "else", "time", "if"})
_SILENT = frozenset(
    {
        *("echo", "printf", "mkdir", "rm", "rmdir", "touch", "chmod", "module", "ml", "source"),
        *(".", "set", "unset", "trap", "exit", "kill", "conda", "ulimit", "hostname"),
    }
)
_SNAKEMAKE: Final = "# properties = "
_SNAKEMAKE_INPUTS = re.compile(r'"input": \[([^]]*)\]')
_QUOTED = re.compile(r'"([^"]*)"')
#: What Snakemake's plugin for Slurm has its job wait for: inputs, and files of its own.
_AWAITED = re.compile(r"snakemake .* --wait-for-files ((?:(?!-)[^ ]+ +)*)")
_OWN_FILES: Final = ".snakemake/"
_NEXTFLOW: Final = "nxf_stage"
_STAGED = re.compile(r"ln -s (?:-f )?([^ ]+) ")


def input_words(
    arguments: Sequence[str],
    script: str,
    *,
    work_dir: str,
    standard_input: str = "",
    variables: Mapping[str, str],
) -> list[str]:
    """Give the paths that may be input files, each once, at most `MOST`.

    arguments: of the script.
    script: its text, or the command that ``--wrap`` gives.
    work_dir: folder of the job; paths that are relative begin there.
    variables: of the client's environment.

    >>> input_words(["a.bam", "-o", "b.bam"], "", work_dir="/home/ada", variables={})
    ['/home/ada/a.bam']
    """
    found = _Found(work_dir, variables, arguments)
    found.add_arguments(arguments)
    found.add(standard_input)
    if PACKED in script:  # it is the command of the first of several tasks
        return list(found.paths)
    found.add_text(script[:_MOST_TEXT].replace("\\\n", " "))
    return list(found.paths)


class _Found:
    """Paths that were found, in their order."""

    def __init__(
        self, work_dir: str, variables: Mapping[str, str], arguments: Sequence[str]
    ) -> None:
        self.paths: dict[str, None] = {}
        self._work_dir = self._folder = work_dir.rstrip("/")
        self._environment = variables
        self._own = {str(place): word for place, word in enumerate(arguments, 1)}
        self._own["SLURM_SUBMIT_DIR"] = self._own["PWD"] = self._work_dir

    def add_arguments(self, words: Iterable[str], *, text: bool = False) -> None:
        """Add the words of a command; ``text``: only those that look like a file's name."""
        for word in _values(words):
            if not text or (len(word) > 2 and _FILE.search(word)):
                self.add(word)

    def add(self, word: str) -> None:
        """Add what a word names, parted by commas."""
        if len(self.paths) >= MOST or len(word) > MOST * _LONGEST:
            return
        for part in word.split(","):
            path = part.removeprefix("file://")
            if path.startswith("~/"):
                path = self._environment.get("HOME", "~") + path[1:]
            if len(path) > _LONGEST or _NO_FILE.search(path) or not re.search("[A-Za-z]", path):
                continue
            path = path if path.startswith("/") else f"{self._folder}/{path.removeprefix('./')}"
            path = path.rstrip("/")
            none = self._is_above(_EVERYTHING.sub("", path)) or _SYSTEM.match(f"{path}/")
            if not none and len(self.paths) < MOST:
                self.paths[path] = None

    def _is_above(self, path: str) -> bool:
        """Whether it is the folder of the job, or one above it."""
        return f"{self._work_dir}/".startswith(f"{path}/") or path.endswith(("/.", "/.."))

    def add_text(self, text: str) -> None:
        """Add what the commands of a script name, and its here-documents."""
        staged = _NEXTFLOW in text
        here = ""
        for line in text.split("\n"):
            words = line.strip(" \t\r")
            if len(self.paths) >= MOST:
                return
            if staged:
                self._add_matches(_STAGED, words)
            elif here:
                here = "" if words == here else here
                self.add_arguments(self._expanded(words).split(), text=True)
            elif words.startswith("#"):
                self._add_properties(words)
            else:
                begun = _HERE.search(words)
                here = begun[1] if begun else ""
                self._add_commands(words)

    def _add_properties(self, comment: str) -> None:
        if comment.startswith(_SNAKEMAKE) and (inputs := _SNAKEMAKE_INPUTS.search(comment)):
            self._add_matches(_QUOTED, inputs[1])

    def _add_matches(self, pattern: re.Pattern[str], text: str) -> None:
        for path in pattern.findall(text):
            self.add(path)

    def _add_commands(self, line: str) -> None:
        if awaited := _AWAITED.search(line):
            for word in awaited[1].translate(_BLANKS).split():
                if _OWN_FILES not in word:
                    self.add(word)
            return
        line = _REDIRECTED.sub(" ", re.sub(r"[ \t]#.*", "", line))
        for command in re.split("[;|&]+", line):
            self._add_command(self._expanded(command).split())

    def _add_command(self, words: list[str]) -> None:
        at = 0
        while at < len(words):
            assigned = _ASSIGNED.fullmatch(words[at])
            if assigned:
                self._own[assigned[1]] = assigned[2]
                # A folder is mostly the beginning of a path.
                if len(assigned[2]) <= _LONGEST and _ENDING.search(assigned[2]):
                    self.add_arguments(words[at : at + 1], text=True)
            elif words[at] not in _BEFORE:
                break
            at += 1
        if at == len(words) or words[at] in _SILENT:
            return
        if words[at] == "cd":
            self._enter(words[at + 1] if at + 1 < len(words) else "~")
        else:
            self.add_arguments(words[at + 1 :], text=True)

    def _enter(self, folder: str) -> None:
        """Paths that follow begin in another folder."""
        if folder.startswith("/"):
            self._folder = folder.rstrip("/")
        elif not folder.startswith("~"):
            self._folder = f"{self._folder}/{folder.removeprefix('./').rstrip('/')}"

    def _expanded(self, text: str) -> str:
        """Give a text with the values of its variables, where they are known, and no quotes."""
        return _VARIABLE.sub(self._value, text).translate(_BLANKS)

    def _value(self, variable: re.Match[str]) -> str:
        own = self._own.get(variable[1])
        return self._environment.get(variable[1], "$") if own is None else own


def _values(words: Iterable[str]) -> Iterator[str]:
    """Give the words and the values of options, but those that name what is written."""
    written = False
    for word in words:
        if written:
            written = False
            continue
        option, equals, value = word.partition("=")
        if word.startswith("-"):
            name = option.lstrip("-").lower()
            if name == "o" or name.startswith("out"):
                written = not equals
            elif equals:
                yield value
        elif assigned := _ASSIGNED.fullmatch(word):
            if not assigned[1].lower().startswith("out"):
                yield assigned[2]
        else:
            yield word
