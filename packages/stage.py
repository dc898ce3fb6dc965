"""Put together the files of a package: a private environment, commands, units, pages, completion.

``python -m packages.stage ROOT`` makes below ROOT what the Debian package and the RPM consist of.
"""

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from packages import manual as pages

PROJECT = Path(__file__).resolve().parents[1]
HOME = Path("/usr/lib/nimo-slurm")  #: the private environment
COMMANDS = ("nimo", "nimo-advise")
REQUIREMENTS = PROJECT / "packages" / "requirements.txt"  #: of the extra "packages", with hashes
BUILD_REQUIREMENTS = PROJECT / "packages" / "build-requirements.txt"
BILL = Path("usr/share/doc/nimo-slurm/sbom.cdx.json")

#: Puts the project and what it needs into the environment of this interpreter.
Fill = Callable[[Path], None]


def main() -> None:
    """Read the command line and stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument(
        "--python", type=Path, default=Path("/usr/bin/python3"), help="that the package will use"
    )
    parser.add_argument("--zsh", default="usr/share/zsh/vendor-completions", metavar="FOLDER")
    args = parser.parse_args()
    stage(args.root, python=args.python, zsh=args.zsh)


def with_pip(python: Path) -> None:
    """Install what is pinned, and the project; pip refuses a file with another hash."""
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "--require-hashes", "-r", REQUIREMENTS], check=True)
    with tempfile.TemporaryDirectory() as folder:
        build("hatchling", "build", "-t", "wheel", "-d", folder)
        # By name: with a path pip would write down where the wheel was.
        subprocess.run([*pip, "--no-deps", "--no-index", "-f", folder, "nimo-slurm"], check=True)
    # Scripts begin with the path of their environment, which is another one where it is used.
    for record in python.parents[1].glob("lib/*/site-packages/*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith("../")))


def build(tool: str, *words: str | Path) -> None:
    """Run a tool that is pinned, too, in the project's folder."""
    with tempfile.TemporaryDirectory() as tools:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", tools]
        subprocess.run([*pip, "--require-hashes", "-r", BUILD_REQUIREMENTS], check=True)
        subprocess.run(
            [sys.executable, "-m", tool, *words],
            check=True,
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": tools},
            stdout=subprocess.DEVNULL,
        )


def stage(root: Path, *, python: Path, zsh: str, fill: Fill = with_pip) -> None:
    """Make all files below ``root``.

    python: interpreter of the target system, of which the environment is made.
    zsh: folder of zsh's completions, from ``root`` on.
    fill: fills the environment.
    """
    root = root.resolve()
    _environment(root, python, fill)
    bill_of_materials(root / HOME.relative_to("/") / "bin" / "python3", root / BILL)
    for name in COMMANDS:
        link = root / "usr" / "bin" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(HOME / "bin" / name, "/usr/bin"))
    _settings(root)
    _units(root / "usr" / "lib" / "systemd" / "system")
    for name, text in (*pages.pages(), *pages.old_names()):
        _compressed(root / "usr" / "share" / "man" / "man1" / name, text)
    for name, parser in pages.completions().items():
        _text(
            root / "usr/share/bash-completion/completions" / name, pages.completion(parser, "bash")
        )
        _text(root / zsh / f"_{name}", pages.completion(parser, "zsh"))
    if epoch_s := os.environ.get("SOURCE_DATE_EPOCH"):  # dpkg and rpm leave earlier times alone
        for path in root.rglob("*"):
            os.utime(path, (int(epoch_s), int(epoch_s)), follow_symlinks=False)


def bill_of_materials(python: Path, path: Path) -> None:
    """Write which packages an environment holds, as CycloneDX."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tool = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-format", "JSON"]
    subprocess.run([*tool, "--output-reproducible", "-o", path, python], check=True)


def _environment(root: Path, python: Path, fill: Fill) -> None:
    """Make an environment that will be at HOME, whatever ``root`` is."""
    place = root / HOME.relative_to("/")
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", place], check=True)
    fill(place / "bin" / "python3")
    for script in (place / "bin").iterdir():
        if script.is_symlink():
            continue
        if script.name in COMMANDS:
            # -I: neither PYTHONPATH nor modules in a user's home change what nimod runs.
            text = re.sub(r"\A#!.*", f"#!{HOME}/bin/python3 -I", script.read_text())
            script.write_text(text)
        else:
            script.unlink()
    settings = place / "pyvenv.cfg"
    settings.write_text(settings.read_text().replace(str(place), str(HOME)))
    # Users cannot write bytecode there, and without it every command would start slowly.
    compile_all = [place / "bin" / "python3", "-m", "compileall", "-q", "-s", root, "-p", "/"]
    subprocess.run(
        [*compile_all, "--invalidation-mode", "unchecked-hash", place / "lib"], check=True
    )


def _settings(root: Path) -> None:
    etc = root / "etc" / "nimo"
    etc.mkdir(parents=True)
    shutil.copyfile(PROJECT / "etc" / "nimo.yaml", etc / "nimo.yaml")
    examples = root / "usr/share/doc/nimo-slurm/examples"
    examples.mkdir(parents=True)
    for name in ("nimo_hook.conf", "slurm.conf.nimo"):
        shutil.copyfile(PROJECT / "etc" / name, examples / name)
    for name in ("grafana", "prometheus"):
        shutil.copytree(PROJECT / "etc" / name, examples / name)


def _units(folder: Path) -> None:
    """Units that call the commands where the package has them."""
    for unit in sorted((PROJECT / "etc" / "systemd").iterdir()):
        _text(folder / unit.name, unit.read_text().replace("/usr/local/bin/", "/usr/bin/"))


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _compressed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
