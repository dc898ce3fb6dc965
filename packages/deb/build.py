"""Build the Debian package.

``python -m packages.deb.build FOLDER`` leaves nimo-slurm_VERSION_ARCHITECTURE.deb there.
"""

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import tomllib
from email.utils import formatdate
from pathlib import Path
from string import Template

from packages import stage

HERE = Path(__file__).resolve().parent
_SCRIPTS = ("postinst", "prerm", "postrm")


def main() -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--python", type=Path, default=Path("/usr/bin/python3"), help="of the system it is for"
    )
    args = parser.parse_args()
    print(build(args.folder, python=args.python))  # noqa: T201 - what it is for


def build(
    folder: Path,
    *,
    python: Path,
    fill: stage.Fill = stage.with_pip,
    version: str = "",
    compression: tuple[str, ...] = ("-Zxz", "-z3"),
) -> Path:
    """Build the package and give its path.

    fill: fills the environment; see :func:`stage.stage`.
    version: instead of the project's.
    compression: options of dpkg-deb.
    """
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    stage.stage(root, python=python, zsh="usr/share/zsh/vendor-completions", fill=fill)
    version = version or f"{_project_version()}-1"
    _documents(root / "usr/share/doc/nimo-slurm", version)
    _text(root / "usr/share/lintian/overrides/nimo-slurm", (HERE / "lintian-overrides").read_text())
    _control(root, python, version)
    _permissions(root)
    made = folder / f"nimo-slurm_{version}_{_architecture()}.deb"
    build_it = ["dpkg-deb", "--root-owner-group", *compression, "--build", root, made]
    subprocess.run(build_it, check=True, stdout=subprocess.DEVNULL)
    return made


def _documents(folder: Path, version: str) -> None:
    licence = (stage.PROJECT / "LICENSE").read_text()
    _text(folder / "copyright", f"NIMO for Slurm.\n\n{licence}")
    text = (
        f"nimo-slurm ({version}) stable; urgency=medium\n\n  * See changelog.gz.\n\n"
        f" -- {_maintainer()}  {formatdate(_epoch_s())}\n"
    )
    _compressed(folder / "changelog.Debian.gz", text.encode())
    _compressed(folder / "changelog.gz", (stage.PROJECT / "CHANGELOG.md").read_bytes())


def _control(root: Path, python: Path, version: str) -> None:
    kibibytes = sum(path.lstat().st_size for path in root.rglob("*")) // 1024
    text = Template((HERE / "control.in").read_text()).substitute(
        version=version,
        architecture=_architecture(),
        maintainer=_maintainer(),
        kibibytes=kibibytes,
        python=_python_dependency(python),
    )
    _text(root / "DEBIAN" / "control", text)
    _text(root / "DEBIAN" / "conffiles", "/etc/nimo/nimo.yaml\n")
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink())
    inside = (path for path in files if path.parent != root / "DEBIAN")
    sums = [f"{_digest(path)}  {path.relative_to(root)}\n" for path in inside]
    _text(root / "DEBIAN" / "md5sums", "".join(sums))
    for name in _SCRIPTS:
        shutil.copyfile(HERE / name, root / "DEBIAN" / name)


def _digest(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _python_dependency(python: Path) -> str:
    """Compiled packages are for one minor release of Python."""
    code = "import sys; print(sys.version_info[1])"
    shown = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    minor = int(shown.stdout)
    return f"python3 (>= 3.{minor}~), python3 (<< 3.{minor + 1}~)"


def _permissions(root: Path) -> None:
    programs = {root / "DEBIAN" / name for name in _SCRIPTS}
    programs |= {root / "usr/lib/nimo-slurm/bin" / name for name in stage.COMMANDS}
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path in programs else 0o644)


def _project_version() -> str:
    project = tomllib.loads((stage.PROJECT / "pyproject.toml").read_text())
    return str(project["project"]["version"])


def _architecture() -> str:
    shown = subprocess.run(
        ["dpkg", "--print-architecture"], check=True, capture_output=True, text=True
    )
    return shown.stdout.strip()


def _maintainer() -> str:
    name = os.environ.get("DEBFULLNAME", "The NIMO for Slurm developers")
    return f"{name} <{os.environ.get('DEBEMAIL', 'nimo@localhost.localdomain')}>"


def _epoch_s() -> float | None:
    epoch_s = os.environ.get("SOURCE_DATE_EPOCH")
    return float(epoch_s) if epoch_s else None


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _compressed(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    main()
