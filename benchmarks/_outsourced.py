"""Two programs whose files are stored elsewhere: throughput by the latency to the storage.

``python benchmarks/_outsourced.py`` records them again, here.  Files are a server's, which holds
each answer back as long as the link would take.  *Small files*: transactions as PostMark makes
them, a file is read or appended to, then one is made or removed.  *Users' scripts*: commands as
SPEC-SDET's users give them, a file is read, compressed, written and read again.
"""

import csv
import socket
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

RECORDED = Path(__file__).parent / "recordings" / "outsourced.csv"
LATENCIES_MS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
#: Times that each of so many transactions is made; the fastest counts: others may be running.
REPEATS, TRANSACTIONS = 24, 12
#: Bytes of a file; those that a command compresses.
SMALL, LARGE = 2_000, 60_000
LENGTH = 4
Ask = Callable[[bytes, bytes, bytes], bytes]


@dataclass(frozen=True, slots=True)
class Outsourced:
    """A program with one latency: seconds that a transaction takes on average, and CPU seconds."""

    program: str
    latency_ms: float
    wall_s: float
    cpu_s: float


def outsourced() -> list[Outsourced]:
    """Read what was recorded."""
    with RECORDED.open(newline="") as lines:
        return [
            Outsourced(
                row["program"], float(row["latency_ms"]), float(row["wall_s"]), float(row["cpu_s"])
            )
            for row in csv.DictReader(lines)
        ]


def small_files(ask: Ask, number: int) -> None:
    """Make one transaction on a pool of small files."""
    name = f"small{number % 16}".encode()
    ask(b"a" if number % 2 else b"r", name, b"x" * 100)
    ask(b"w" if number % 3 else b"d", name, b"y" * SMALL)


def users_scripts(ask: Ask, number: int) -> None:
    """Give one command: read, compress, write; then look at what was written."""
    text = ask(b"r", b"source", b"")
    made = zlib.compress(text, 9)
    ask(b"w", f"made{number % 8}".encode(), made)
    ask(b"r", f"made{number % 8}".encode(), b"")


PROGRAMS = {"small files": small_files, "users' scripts": users_scripts}


@contextmanager
def storage(latency_s: float) -> Iterator[Ask]:
    """Serve files at this distance; give what asks: an operation's letter, a name, content."""
    files = {b"source": np.random.default_rng(1).integers(97, 105, LARGE, np.uint8).tobytes()}
    near, far = socket.socketpair()
    server = threading.Thread(target=_serve, args=(far, files, latency_s))
    server.start()

    def ask(*words: bytes) -> bytes:
        _send(near, *words)
        return _received(near)

    with near, far:
        yield ask
        near.shutdown(socket.SHUT_WR)
        server.join()


def _serve(far: socket.socket, files: dict[bytes, bytes], latency_s: float) -> None:
    while operation := _received(far):
        name, content = _received(far), _received(far)
        if operation == b"d":
            files.pop(name, None)
        if operation == b"w":
            files[name] = content
        if operation == b"a":
            files[name] = files.get(name, b"") + content
        time.sleep(latency_s)
        _send(far, files.get(name, b"") if operation == b"r" else b"")


def _send(to: socket.socket, *words: bytes) -> None:
    to.sendall(b"".join(len(one).to_bytes(LENGTH) + one for one in words))


def _received(of: socket.socket) -> bytes:
    length = int.from_bytes(_exactly(of, LENGTH))
    return _exactly(of, length)


def _exactly(of: socket.socket, length: int) -> bytes:
    """Receive so many bytes; none where the other end has ended."""
    made = b""
    while len(made) < length:
        if not (more := of.recv(length - len(made))):
            return b""
        made += more
    return made


def record() -> None:
    """Run each program with each latency, and write down its time and CPU time."""
    with RECORDED.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["program", "latency_ms", "wall_s", "cpu_s"])
        for name, program in PROGRAMS.items():
            for latency_ms in LATENCIES_MS:
                wall_s, cpu_s = _timed(program, latency_ms / 1000)
                lines.writerow([name, latency_ms, f"{wall_s:.6f}", f"{cpu_s:.6f}"])


def _timed(program: Callable[[Ask, int], None], latency_s: float) -> tuple[float, float]:
    """Time the transactions: by the clock, and their own CPU time."""
    took: dict[int, list[tuple[float, float]]] = defaultdict(list)
    with storage(latency_s) as ask:
        for number in range(TRANSACTIONS * REPEATS):
            start_s, cpu_s = time.perf_counter(), time.thread_time()
            program(ask, number)
            times = time.perf_counter() - start_s, time.thread_time() - cpu_s
            took[number % TRANSACTIONS].append(times)
    fastest = [min(times) for times in took.values()]
    return fmean(one[0] for one in fastest), fmean(one[1] for one in fastest)


if __name__ == "__main__":
    record()
