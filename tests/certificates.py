"""An authority of certificates, with openssl, for tests."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


@dataclass
class Authority:
    """Makes certificates in a folder."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        own = ("-keyout", self.folder / "ca.key", "-out", self.path)
        _openssl("req", "-x509", *_KEY, *own, "-subj", f"/CN={self.folder.name}")

    @property
    def path(self) -> Path:
        """Its own certificate."""
        return self.folder / "ca.pem"

    def certify(self, name: str, *others: str) -> dict[str, str]:
        """Make a certificate for a host; give the settings of who has it.

        others: more that it is for, such as ``IP:127.0.0.1``.
        """
        key, request, made = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        names = ",".join((f"DNS:{name}", *others))
        extension = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={names}")
        _openssl("req", *_KEY, "-keyout", key, "-out", request, *extension)
        sign = ("-CA", self.path, "-CAkey", self.folder / "ca.key", "-copy_extensions", "copy")
        _openssl("x509", "-req", "-in", request, "-out", made, "-days", "2", *sign)
        return {"authority": str(self.path), "certificate": str(made), "key": str(key)}


def _openssl(*argv: str | Path) -> None:
    subprocess.run(["openssl", *argv], check=True, capture_output=True)
