"""Situations of six users without rights, on a real cluster in one day.

As root: starts a Slurm with accounting, the hooks and nimod, makes six users, and gives them a
history.  Then each situation is played: what its user wants, what was printed (all of it), and
what was true afterwards.  Whether it was useful is for a reader to say: docs/measured.md has the
verdicts.

``--programs`` is a folder with nimo and nimo-advise that every user can read, such as
``/opt/nimo/bin`` after ``python3 -m venv /opt/nimo && /opt/nimo/bin/pip install .``
"""

import sys
import sysconfig
import traceback
from pathlib import Path

import _bench
import _situations_daily as daily
import _situations_everyday as everyday
import _situations_trouble as trouble
from _situations import SITUATIONS, Day
from _situations_site import lacking, users_site


def main() -> int:
    """Play, print, write."""
    parser = _bench.options(__doc__ or "")
    parser.add_argument(
        "--programs", type=Path, default=Path(sysconfig.get_path("scripts")), metavar="DIR"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these situations")
    options = parser.parse_args()
    if why := lacking(options.programs.resolve()):
        print(f"nothing was tried: {why}")
        return 0
    names = options.only or [situation.name for situation in SITUATIONS]
    chosen = [situation for situation in SITUATIONS if situation.name in names]
    if options.quick:
        chosen = chosen[:1]
    results = []
    with users_site(options.programs.resolve()) as site:
        day = Day(site)
        everyday.prepare(day)
        trouble.prepare(day)
        daily.prepare(day)
        site.learn()
        for number, situation in enumerate(chosen, 1):
            print(f"\n## {number}. {situation.title} ({situation.name})\n")
            print(f"wants: {situation.wants}\n", flush=True)
            try:
                result = day.try_out(situation)
            except Exception:
                print("".join(said.text() for said in site.said))
                traceback.print_exc(file=sys.stdout)
                continue
            print("\n".join(result["said"]))
            print(f"truth: {result['truth']}  [{result['seconds']:.0f} s]", flush=True)
            results.append(result)
    _bench.write(options.json, situations=results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
