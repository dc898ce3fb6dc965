"""A throw-away Slurm to play with: ``python -m tests.cluster up``."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from packages import manual as pages
from tests.cluster import releases
from tests.cluster.configuration import AUTHENTICATION
from tests.cluster.host import missing_programs
from tests.cluster.nimod import SHIPPED_MS, Nimod, hooks_for
from tests.cluster.slurm import SlurmCluster
from tests.processes import ProcessError, Processes

PLAY = {"mode": "enforce", "snapshot": {"interval_s": 2.0}}
TRY = """\
  sinfo
  sbatch -N2 --wrap 'srun hostname'
  sacct -X"""
MOLDABLE = Path(__file__).parent / "moldable.sh"
TRY_NIMO = """\
  cd {work}
  for n in 1 1 2 2 4 4 8 8; do sbatch -N$n moldable.sh; done    # a history, in a minute
  squeue; nimo ingest && nimo fit                               # learn from it
  nimo-advise -N 1-8 moldable.sh          # nimod sees new tables after a few seconds
  sbatch -N1-8 moldable.sh && scontrol show job | grep NIMO1    # nimod chooses the node count
  nimo status; nimo report
  tail -f {log}/nimod.out {log}/slurmctld.log"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status."""
    options = _parser().parse_args(argv)
    try:
        options.command(options)
    except ProcessError as error:
        sys.stderr.write(f"tests.cluster: {error}\n")
        return 1
    return 0


def up(options: argparse.Namespace) -> None:
    """Bring the cluster up and say how to use it."""
    if missing := missing_programs(options.release):
        raise ProcessError(
            f"not installed: {', '.join(missing)}; as root: sh scripts/install-system-packages"
        )
    directory = options.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    lua = hooks_for(directory, timeout_ms=SHIPPED_MS) if options.with_nimo else options.lua
    cluster = SlurmCluster(
        directory,
        nodes=options.nodes,
        lua=lua,
        leashed=False,
        release=options.release,
        auth=options.auth,
    )
    seconds = cluster.up()
    if options.with_nimo:
        try:
            Nimod(directory, cluster, PLAY).start()
            shutil.copy(MOLDABLE, cluster.layout.work)
            pages.write(directory / "share")
        except BaseException:
            cluster.down()
            raise
    say(f"Slurm is up after {seconds:.1f} s, in {directory}\n")
    status(options)
    say(f"\nIn your shell:\n  export PATH={cluster.bin}:$PATH")
    if options.with_nimo:
        share = directory / "share"
        say(f"  export MANPATH={share}/man:")
        say(f"  for f in {share}/bash-completion/completions/*; do . $f; done    # in bash")
    say("Then try:")
    places = {"work": cluster.layout.work, "log": cluster.layout.log}
    say(TRY_NIMO.format(**places) if options.with_nimo else TRY)
    end = f"{sys.executable} -m tests.cluster down --directory {options.directory}"
    say(f"To end it:\n  cd {Path.cwd()} && {end}")


def down(options: argparse.Namespace) -> None:
    """Take the cluster down; its files stay."""
    seconds = SlurmCluster(options.directory).down()
    say(f"down after {seconds:.1f} s; its files are still in {options.directory}")


def status(options: argparse.Namespace) -> None:
    """Say for each daemon whether it runs."""
    states = Processes(options.directory.resolve()).status()
    for name, state in states.items() or {"cluster": "down"}.items():
        say(f"{name:10} {state}")


def roots(options: argparse.Namespace) -> None:
    """List what pytest's --slurm takes here."""
    del options
    say("\n".join(releases.combinations()))


def build(options: argparse.Namespace) -> None:
    """Build a release of Slurm from its source, in a root directory for the tests."""
    made = releases.build(options.release, options.source)
    say(f"Slurm {options.release} is in {made.path}")


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--directory", "--dir", type=Path, default=Path(".cluster"), help="default: %(default)s"
    )
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (up, down, status, roots, build):
        text = (command.__doc__ or "").splitlines()[0]
        parents = [shared] if command in (up, down, status) else []
        added = commands.add_parser(command.__name__, help=text, parents=parents)
        added.set_defaults(command=command)
        if command is build:
            added.add_argument("--release", required=True, help="such as 25.11")
            added.add_argument("--source", type=Path, required=True, help="its source tree")
        if command is up:
            added.add_argument("--nodes", type=int, default=8, help="default: %(default)s")
            added.add_argument("--release", help="of Slurm, such as 25.11; default: installed")
            added.add_argument("--auth", choices=AUTHENTICATION, default="munge")
            hooks = added.add_mutually_exclusive_group()
            hooks.add_argument("--lua", type=Path, metavar="DIR", help="switch on the hooks there")
            hooks.add_argument("--with-nimo", action="store_true", help="hooks and daemon of NIMO")
    return parser


def say(text: str) -> None:
    """Print to standard output."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
