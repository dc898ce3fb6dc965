"""A nimod that fails in another way every moment, and now and then is the real one."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.cluster.nimod import Nimod

Peer = socket.socket
T = TypeVar("T")
SET = b'{"v":1,"action":"set","set":{"min_nodes":%d,"max_nodes":%d,"min_cpus":%d}}\n'


def _say(text: bytes) -> Callable[[Peer], None]:
    return lambda peer: peer.sendall(text)


def _cut_off(peer: Peer) -> None:
    peer.sendall((SET % (2, 2, 2))[:30])
    peer.shutdown(socket.SHUT_RDWR)


def _drip(peer: Peer) -> None:
    for byte in SET % (2, 2, 2):
        peer.sendall(bytes([byte]))
        time.sleep(1.0)


def _late(peer: Peer) -> None:
    # A slurmctld that gets no processor for as long would find the answer there when it looks.
    time.sleep(1.0)
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
    """Is where the hooks look for nimod, and changes what it does to requests and to its socket.

    path: of the socket that the hooks ask.
    real: a nimod that runs, behind another socket.
    seed: of its moods.
    """

    def __init__(self, path: Path, real: Nimod, seed: int) -> None:
        self._path = path
        self._real = real
        self._random = random.Random(seed)
        self._answer = ANSWERS["right"]
        self._stopping = threading.Event()
        self._peers: list[Peer] = []
        self._seen: set[str] = set()
        self._life = ThreadPoolExecutor(1)
        self._moods: tuple[Callable[[], AbstractContextManager[None]], ...] = (
            *(self._listening, self._listening, self._listening),
            *(self._gone, self._deaf, self._forbidden, self._dead),
            *(self._working, self._frozen, self._restarted),
        )

    def __enter__(self) -> TroubledNimod:
        self._living = self._life.submit(self._live)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._living.result()
        self._life.shutdown()
        self._path.unlink(missing_ok=True)

    @property
    def untried(self) -> set[str]:
        """Troubles that have not been there yet."""
        if self._living.done():
            self._living.result()
        return {*ANSWERS, *(mood.__name__ for mood in self._moods)} - self._seen

    @property
    def connections(self) -> int:
        """How many came while it listened itself."""
        return len(self._peers)

    def _live(self) -> None:
        """Be in one mood after the other: another socket, and other answers on it."""
        answers = self._shuffled(list(ANSWERS))
        for mood in self._shuffled(self._moods):
            if self._stopping.is_set():
                return
            self._path.unlink(missing_ok=True)
            with mood():
                for _ in range(6):
                    name = next(answers)
                    self._answer = ANSWERS[name]
                    self._stopping.wait(0.05)
                    if mood == self._listening:
                        self._seen.add(name)
            self._seen.add(mood.__name__)

    def _shuffled(self, things: Sequence[T]) -> Iterator[T]:
        while True:
            yield from self._random.sample(things, len(things))

    def _working(self) -> AbstractContextManager[None]:
        self._path.symlink_to(self._real.socket)
        return contextlib.nullcontext()

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        with self._working():
            self._real.freeze()
            try:
                yield
            finally:
                self._real.thaw()

    @contextmanager
    def _restarted(self) -> Iterator[None]:
        with self._working():
            self._real.stop()
            self._real.start()
            yield

    @contextmanager
    def _listening(self, mode: int = 0o666) -> Iterator[None]:
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

    def _forbidden(self) -> AbstractContextManager[None]:
        return self._listening(0o000)

    @contextmanager
    def _gone(self) -> Iterator[None]:
        yield

    @contextmanager
    def _dead(self) -> Iterator[None]:
        """A socket file without a process."""
        with socket.socket(socket.AF_UNIX) as closed:
            closed.bind(str(self._path))
            self._path.chmod(0o666)
        yield

    @contextmanager
    def _deaf(self) -> Iterator[None]:
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
