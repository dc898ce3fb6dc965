"""Which runs are "the same application on the same problem".

What a job asks for (nodes, tasks, time, partition) never takes part, so that its runs on different
node counts share their keys.  Its user takes part in every key: runs do not count for other users.
What is volatile in names, words and scripts takes no part either (`engines.template`).  The process
of a workflow engine stands for a tag where the user gave none.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import takewhile
from pathlib import PurePosixPath
from posixpath import normpath

from sacct_ingest.records import LEARNING, Identity
from sacct_ingest.scripts import job_script
from sacct_ingest.scripts.engines import engine_job, name_template, template
from sacct_ingest.text.tag import TAG, parse_tag

#: Job names that sbatch gives to a script from standard input and to ``--wrap``: they say nothing.
_NAMELESS = frozenset({"", "sbatch", "wrap"})
_NAME_LENGTH = 255  # slurmdbd's tinytext
#: First word of a command that `nimo lab learn` put counters around.
COUNTED = "nimo_io()"
#: The option may be cut short, as getopt_long(3) takes it.
_COMMENT_OPTION = re.compile(r"--comm(?:e(?:n(?:t)?)?)?(?:=|\Z)")


def identity_of_request(
    *, user: str, name: str, comment: str, script: str, argv: Sequence[str], work_dir: str = ""
) -> Identity:
    """Identity of a job that is being submitted.

    script: text of the batch script, empty for salloc and srun.
    argv: script (or command) and its arguments.
    work_dir: folder that paths among the arguments start from; empty: unknown.
    """
    parsed = job_script.parse_script(script) if script else None
    words = words_of_request(script, argv, work_dir)
    arguments = [_argument(word, work_dir) for word in argv[1:]]
    body = parsed.body if parsed is not None else ""
    digest = _digest(template("\0".join((body, *arguments)))) if body else ""
    return _identity(user, name, comment, digest, words)


def is_nameless(name: str) -> bool:
    """Whether a job's name says nothing of it, as that of all jobs of ``--wrap``."""
    return name.strip() in _NAMELESS


def words_of_request(script: str, argv: Sequence[str], work_dir: str = "") -> tuple[str, ...]:
    """Command of a job and its arguments, as `words_of_line` spells them."""
    if script and (parsed := job_script.parse_script(script)).wrapped:
        return _words_of_wrap(parsed.body)
    return _words_of_command(argv[0], argv[1:], work_dir) if argv else ()


@job_script.bounded_cache(entries=4096, characters=2048)
def identity_of_line(
    user: str, name: str, comment: str, submit_line: str, work_dir: str = ""
) -> Identity:
    """Identity of a run from these five fields of the accounting.

    The script's text is not in the accounting, so ``script`` is empty: the decision made at the
    job's submission has it.
    """
    comment = comment_of(comment, submit_line)
    parsed = parsed_line(submit_line, (comment, name))
    return identity_of_parsed(user, name, comment, parsed, work_dir)


def identity_of_parsed(
    user: str, name: str, comment: str, parsed: job_script.CommandLine, work_dir: str
) -> Identity:
    """Identity of a run whose submit line was read already, as of `identity_of_line`."""
    return _identity(user, name, comment, "", words_of_command_line(parsed, work_dir))


def _identity(user: str, name: str, comment: str, script: str, words: Sequence[str]) -> Identity:
    user = user.strip()
    name = name.strip()[:_NAME_LENGTH].rstrip()
    # A user's scripts from standard input have nothing in common but that.
    specific = words or not is_nameless(name)
    if not user:
        return Identity(user, name)
    tag = parse_tag(comment)
    engine = engine_job(name, comment, words)
    application = (tag.key if tag else "") or (engine.application if engine else "")
    if application and name.startswith(LEARNING):
        return Identity(user, name, tag=f"{user}/{application}"[:_NAME_LENGTH])
    return Identity(
        user,
        name,
        tag=(f"{user}/{application}"[:_NAME_LENGTH] if application else ""),
        script=_digest(user, script) if script else "",
        line=_line(user, name, words) if specific else "",
    )


def _line(user: str, name: str, words: Sequence[str]) -> str:
    stable = name_template(name)
    return _digest(user, stable, template("\0".join(words))) if words else _digest(user, stable)


def names_of(label: str) -> tuple[str, str, str]:
    """Names by which an application is asked for: its label with and without user, its last part.

    >>> names_of("ada/wrf/d02")
    ('ada/wrf/d02', 'wrf/d02', 'd02')
    """
    return label, label.partition("/")[2], label.rpartition("/")[2]


def words_of_line(line: str, work_dir: str, *values: str) -> tuple[str, ...]:
    """Command of a run and its arguments, out of its submit line.

    ``values`` are those of its options that sacct shows elsewhere too: the quotes around them are
    lost, and what follows a space in a comment would be taken for the script.
    """
    return words_of_command_line(parsed_line(line, values), work_dir)


def words_of_command_line(parsed: job_script.CommandLine, work_dir: str) -> tuple[str, ...]:
    """Command of a submit line that was read already, and its arguments."""
    wrap = parsed.options.get("wrap")
    if wrap is not None:
        return _words_of_wrap(wrap)
    return _words_of_command(parsed.script, parsed.arguments, work_dir) if parsed.script else ()


def parsed_line(line: str, values: Iterable[str]) -> job_script.CommandLine:
    """Read a submit line; ``values`` as of `words_of_line`.

    >>> parsed_line("sbatch --export=ALL,STEPS=500 md.sh", ()).options["export"]
    'ALL,STEPS=500'
    """
    for value in values:
        if len(value.split()) > 1:
            line = line.replace(value, "_".join(value.split()), 1)
    return job_script.parse_command_line(job_script.split_submit_line(line))


def comment_of(comment: str, line: str) -> str:
    """Give the comment of a run: the accounting's, else the one in its submit line.

    By default accounting keeps no comments, and the quotes in a submit line are lost.  A comment
    of several words ends with its tag; beside ``--wrap``, at the next option.

    >>> comment_of("", "sbatch --comment=nimo:app=wrf run.sh"), comment_of("mine", "sbatch a.sh")
    ('nimo:app=wrf', 'mine')
    >>> comment_of("", "sbatch --comment for the paper nimo:app=wrf -N 2 run.sh")
    'for the paper nimo:app=wrf'
    """
    if comment or "--com" not in line:
        return comment
    words = job_script.split_submit_line(line)
    said = job_script.parse_command_line(words).options.get("comment")
    found = (at for at, word in enumerate(words) if _COMMENT_OPTION.match(word))
    at = next(found, None)
    if at is None or not said:
        return ""
    first = words[at].partition("=")[2]
    more = words[at + 1 :]
    return _whole_comment([first, *more] if first else more)


def _whole_comment(words: Sequence[str]) -> str:
    """Give the comment with which these words begin."""
    quote = words[0][0]
    if quote in "\"'":
        ends = (at for at, word in enumerate(words) if word.endswith(quote) and (at or word[1:]))
        last = next(ends, 0)
        return " ".join(words[: last + 1]).strip(quote)
    plain = list(takewhile(lambda word: not word.startswith("-"), words))
    if len(plain) < len(words) and any(word.startswith("--wrap") for word in words):
        return " ".join(plain)
    tags = [at for at, word in enumerate(plain) if word.startswith(TAG)]
    return " ".join(plain[: tags[-1] + 1]) if tags else words[0]


def _words_of_wrap(text: str) -> tuple[str, ...]:
    """Give the words of a wrapped command, without the counters that `nimo lab learn` puts around.

    >>> _words_of_wrap("nimo_io() { cat; } nimo_io > a ( blast -t 4 ) nimo_status=$? nimo_io > b")
    ('--wrap', 'blast', '-t', '4')
    """
    words = text.split()
    if words and words[0] == COUNTED and "(" in words and ")" in words:
        last = len(words) - 1 - words[::-1].index(")")
        words = words[words.index("(") + 1 : last]
    return ("--wrap", *words)


def _words_of_command(command: str, arguments: Sequence[str], work_dir: str) -> tuple[str, ...]:
    """Words to compare: sbatch gives its plugins the script's whole path, sacct what was typed.

    Quotes are lost in sacct's SubmitLine, so arguments are taken apart at spaces here too.
    """
    words = (_argument(word, work_dir) for word in " ".join(arguments).split())
    return (PurePosixPath(command).name, *words)


def _argument(word: str, work_dir: str) -> str:
    """Spell a path in one way: from the working directory on, without ``.`` and double slashes.

    One outside that folder stays as typed.  ``../in.dat`` is spelled alike in all folders of a
    study, an absolute path everywhere: spelled like the other, either loses its history.

    >>> _argument("./in.dat", "/home/ada"), _argument("--input=/home/ada/in.dat", "/home/ada")
    ('in.dat', '--input=in.dat')
    """
    if "/" not in word:
        return word
    option, equals, path = word.rpartition("=")
    path = normpath(path) if path else path
    if work_dir and path.startswith("/"):
        folder = normpath(work_dir).rstrip("/")
        path = path.removeprefix(f"{folder}/") if path != folder else "."
    return f"{option}{equals}{path}"


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=12).hexdigest()
