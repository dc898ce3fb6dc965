"""Credentials of MUNGE, through its own library: see munge(3)."""

import ctypes
from functools import cache
from typing import Any

from sacct_ingest.errors import NimoError

_LIBRARY = "libmunge.so.2"
_SOCKET, _UID_RESTRICTION = 8, 9  #: of munge_opt_t in munge.h


class MungeError(NimoError):
    """There is no credential, or none that can be believed."""


class Munge:
    """Makes and checks credentials.

    A credential is encrypted, says which uid made it, and is good once and for some minutes.

    socket: of munged; empty: munge's default.
    Raises MungeError: the library is not installed.
    """

    def __init__(self, socket: str = "") -> None:
        self._library = _library()
        self._socket = socket.encode()

    def encode(self, payload: bytes, *, for_uid: int) -> str:
        """Make a credential that only processes of ``for_uid`` can decode.

        Raises MungeError: munged does not answer.
        """
        text = ctypes.c_char_p()
        with _Context(self._library, self._socket) as context:
            context.set(_UID_RESTRICTION, ctypes.c_int(for_uid))
            context.check(
                self._library.munge_encode(
                    ctypes.byref(text), context.handle, payload, ctypes.c_int(len(payload))
                )
            )
        made = text.value or b""
        _libc().free(text)
        return made.decode("ascii")

    def decode(self, credential: str) -> tuple[bytes, int]:
        """Check a credential; give its payload, and the uid that made it.

        Raises MungeError: it was made with another key, is too old, was decoded before or is for
            another uid; or munged does not answer.
        """
        data = ctypes.c_void_p()
        length = ctypes.c_int()
        uid = ctypes.c_uint32()
        gid = ctypes.c_uint32()
        with _Context(self._library, self._socket) as context:
            status = self._library.munge_decode(
                ctypes.c_char_p(credential.encode("ascii", "replace")),
                context.handle,
                *map(ctypes.byref, (data, length, uid, gid)),
            )
            # Of a credential that was sent again or is too old munge gives the payload, too.
            payload = ctypes.string_at(data, length.value) if data else b""
            _libc().free(data)
            context.check(status)
        return payload, uid.value


class _Context:
    """What a call of the library needs, and its words for what went wrong."""

    def __init__(self, library: Any, socket: bytes) -> None:
        self._library = library
        self._socket = socket

    def __enter__(self) -> "_Context":
        self.handle = ctypes.c_void_p(self._library.munge_ctx_create())
        if not self.handle:
            raise MungeError("munge has no memory")
        if self._socket:
            self.set(_SOCKET, ctypes.c_char_p(self._socket))
        return self

    def __exit__(self, *_: object) -> None:
        self._library.munge_ctx_destroy(self.handle)

    def set(self, option: int, value: object) -> None:
        """Set an option of the context."""
        self.check(self._library.munge_ctx_set(self.handle, ctypes.c_int(option), value))

    def check(self, status: int) -> None:
        """Raise what a status stands for, unless it is success."""
        if status:
            words = self._library.munge_ctx_strerror(self.handle)
            words = words or self._library.munge_strerror(status)
            raise MungeError(f"munge: {words.decode(errors='replace')}")


@cache
def _library() -> Any:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise MungeError(f"{_LIBRARY} is not installed; install munge") from error
    library.munge_ctx_create.restype = ctypes.c_void_p
    library.munge_ctx_destroy.restype = None
    for name in ("munge_ctx_strerror", "munge_strerror"):
        getattr(library, name).restype = ctypes.c_char_p
    return library


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.free.restype = None
    return libc
