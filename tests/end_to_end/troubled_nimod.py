"""A nimod that fails in another way every moment."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

Peer = socket.socket
SET = b'{"v":1,"action":"set","set":{"min_nodes":%d,"max_nodes":%d,"min_cpus":%d}}\n'


def _say(text: bytes) -> Callable[[Peer], None]:
    return lambda peer: peer.sendall(text)


def _cut_off(peer: Peer) -> None:
    peer.sendall((SET % (2, 2, 2))[:30])
    peer.shutdown(socket.SHUT_RDWR)


def _drip(peer: Peer) -> None:
    for byte in SET % (2, 2, 2):
        peer.sendall(bytes([byte]))
        time.sleep(0.01)


def _late(peer: Peer) -> None:
    time.sleep(0.03)
    peer.sendall(SET % (3, 3, 3))


#: What becomes of a request.
ANSWERS: dict[str, Callable[[Peer], None]] = {
    "right": _say(SET % (2, 2, 2)),
    "none": lambda peer: None,
    "late": _late,
    "drip": _drip,
    "cut off": _cut_off,
    "hang up": lambda peer: peer.shutdown(socket.SHUT_RDWR),
    "garbage": _say(b'\x00\xff{"v": [[[ 1\n'),
    "megabytes": _say(b"x" * 4_000_000),
    "other version": _say(b'{"v":2,"action":"set","set":{"min_nodes":2,"max_nodes":2}}\n'),
    "wrong types": _say(b'{"v":1,"action":"set","set":{"min_nodes":"2","max_nodes":[2]}}\n'),
    "negative": _say(b'{"v":1,"action":"set","set":{"min_nodes":-4,"max_nodes":-4}}\n'),
    "not a number": _say(b'{"v":1,"action":"set","set":{"min_nodes":NaN,"max_nodes":NaN}}\n'),
    "absurd": _say(b'{"v":1,"action":"set","set":{"min_nodes":1e9,"max_nodes":1e9}}\n'),
    "two answers": _say(b'{"v":1}\n{"v":1}\n'),
    "nobody's field": _say(b'{"v":1,"action":"set","set":{"user_id":0,"script":"rm"}}\n'),
}


class TroubledNimod:
    """Listens where nimod should, and changes what it does to requests and to its own socket.

    Parameters
    ----------
    path
        Of the socket.
    seed
        Of its moods.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._random = random.Random(seed)
        self._answer = ANSWERS["right"]
        self._stopping = threading.Event()
        self._peers: list[Peer] = []
        self.seen: set[str] = set()
        self._moods = threading.Thread(target=self._change, daemon=True)

    def __enter__(self) -> TroubledNimod:
        self._moods.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._moods.join(30)
        self._path.unlink(missing_ok=True)

    def _change(self) -> None:
        """Live on: now and then with another socket, mostly with another answer."""
        sockets = [self._listening, self._gone, self._deaf, self._forbidden, self._dead]
        while not self._stopping.is_set():
            made = self._random.choices(sockets, weights=(8, 1, 1, 1, 1))[0]
            self.seen.add(made.__name__)
            self._path.unlink(missing_ok=True)
            with made():
                for _ in range(6):
                    name = self._random.choice(list(ANSWERS))
                    self.seen.add(name)
                    self._answer = ANSWERS[name]
                    self._stopping.wait(0.05)

    @contextlib.contextmanager
    def _listening(self, mode: int = 0o666):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._path))
            self._path.chmod(mode)
            listener.listen()
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            yield
            listener.shutdown(socket.SHUT_RDWR)
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def _forbidden(self):
        return self._listening(0o000)

    @contextlib.contextmanager
    def _gone(self):
        yield

    @contextlib.contextmanager
    def _dead(self):
        """A socket file without a process."""
        with socket.socket(socket.AF_UNIX) as closed:
            closed.bind(str(self._path))
            self._path.chmod(0o666)
        yield

    @contextlib.contextmanager
    def _deaf(self):
        """Nobody accepts, and the backlog is full."""
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(self._path))
            self._path.chmod(0o666)
            listener.listen(0)
            for _ in range(3):
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect_ex(str(self._path))
            yield

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                self._peers.append(peer)
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: Peer) -> None:
        with contextlib.suppress(OSError), peer:
            while peer.recv(1 << 20):
                self._answer(peer)
