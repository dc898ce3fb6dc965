"""Build what a release has beside the packages of distributions: sdist, wheel, zipapp, SBOM.

``python -m packages.release FOLDER`` leaves them there.  nimo.pyz is for one minor release of
Python, as the packages are, since it holds compiled ones.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from packages import stage


def main() -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--python", type=Path, default=Path("/usr/bin/python3"), help="that will run nimo.pyz"
    )
    args = parser.parse_args()
    folder = args.folder.resolve()
    stage.build("hatchling", "build", "-d", folder)
    [wheel] = folder.glob("*.whl")
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([args.python, "-m", "venv", "--without-pip", place], check=True)
        python = Path(place) / "bin" / "python3"
        stage.with_pip(python)
        name, version, _ = wheel.name.split("-", 2)
        stage.bill_of_materials(python, folder / f"{name}-{version}.cdx.json")
        [packages] = python.parents[1].glob("lib/python3*/site-packages")
        # -E: processes that a command starts find the packages, too.
        made = ("--reproducible", "--compressed", "-p", "/usr/bin/env python3", "-c", "nimo", "-E")
        stage.build("shiv", "--site-packages", packages, *made, "-o", folder / "nimo.pyz")


if __name__ == "__main__":
    main()
