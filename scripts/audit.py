"""Look up vulnerabilities of the packages' contents: ``make audit``.

pip-audit leaves out what it cannot look up, and then ends well.  Here that is a failure: an
unchecked package is not a safe one.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REQUIREMENTS = "packages/requirements.txt"
HOLES, NOT_ASKED = 1, 2


def main() -> int:
    """Ask, and say what came of it; exit status 1: holes, 2: some were not looked up."""
    program = Path(sys.executable).with_name("pip-audit")
    options = ("--disable-pip", "--require-hashes", "--progress-spinner", "off", "-f", "json")
    done = subprocess.run(
        [program, *options, "-r", REQUIREMENTS], check=False, capture_output=True, text=True
    )
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"nothing was audited: {last}", file=sys.stderr)
        return NOT_ASKED
    return judge(packages)


def judge(packages: Sequence[Mapping[str, Any]]) -> int:
    """Print the vulnerabilities of packages, as pip-audit lists them; give the exit status."""
    holes = [(one, hole) for one in packages for hole in one.get("vulns", ())]
    skipped = [one for one in packages if "skip_reason" in one]
    for one, hole in holes:
        fixed = " or ".join(hole.get("fix_versions", ())) or "none yet"
        print(f"{one['name']} {one['version']}: {hole['id']}, fixed in {fixed}")
    if skipped or not packages:
        print(
            f"not audited: {len(skipped)} of {len(packages)} packages could not be looked up; "
            "their vulnerabilities are unknown.  Is the database reachable?",
            file=sys.stderr,
        )
    asked = len(packages) - len(skipped)
    print(f"{asked} packages looked up, {len(holes)} vulnerabilities")
    if holes:
        return HOLES
    return NOT_ASKED if skipped or not packages else 0


if __name__ == "__main__":
    sys.exit(main())
