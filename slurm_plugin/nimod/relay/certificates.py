"""The site's certificates, where the cluster has no munge: both sides show one."""

import ssl
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from slurm_plugin.config.settings import Tls
from slurm_plugin.nimod.relay.frames import LinkError


class Certificates:
    """What this host shows and what it believes; read again when the files change.

    files: paths of authority, certificate and key.
    server: this host is the controller.
    """

    def __init__(self, files: Tls, *, server: bool) -> None:
        self._files = files
        self._server = server
        self._read_ns: tuple[int, ...] = ()
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Give what a connection needs.

        Raises LinkError: a file cannot be read, or is none of the kind.
        """
        paths = (self._files.authority, self._files.certificate, self._files.key)
        try:
            changed_ns = tuple(Path(path).stat().st_mtime_ns for path in paths)
            if self._context is None or changed_ns != self._read_ns:
                self._context, self._read_ns = self._read(*paths), changed_ns
        except (OSError, ssl.SSLError) as error:
            named = getattr(error, "filename", None) or ", ".join(paths)
            raise LinkError(f"{named}: {error.strerror or error}; correct relay.tls") from error
        return self._context

    def _read(self, authority: str, certificate: str, key: str) -> ssl.SSLContext:
        side = ssl.PROTOCOL_TLS_SERVER if self._server else ssl.PROTOCOL_TLS_CLIENT
        context = ssl.SSLContext(side)  # a client checks the name of the host
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)
        context.load_cert_chain(certificate, key)
        return context


def check_name(certificate: Any, patterns: Iterable[str]) -> None:
    """See that a relay's certificate is one of those that the site names.

    certificate: as :meth:`ssl.SSLSocket.getpeercert` gives it.
    Raises LinkError: it is none: the authority has also made those of other hosts and people.
    """
    certificate = certificate or {}
    names = [name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS"]
    if not any(_matches(name, pattern) for name in names for pattern in patterns):
        shown = ", ".join(names) or "no host"
        raise LinkError(f"the certificate is of {shown}, not of relay.tls.login_nodes")


def _matches(name: str, pattern: str) -> bool:
    """Whether each label of a name matches that of the pattern; `*` stands for no dot."""
    labels, patterns = name.split("."), pattern.split(".")
    return len(labels) == len(patterns) and all(map(fnmatchcase, labels, patterns))
