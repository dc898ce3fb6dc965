"""A nimod that treats each request as a test tells it."""

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Behaviour = Callable[[socket.socket, bytes], None]
Job = dict[str, Any]


class CannedNimod(socketserver.ThreadingUnixStreamServer):
    """A server on a Unix socket; `behave` gets each line and the connection it came from."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path, behave: Behaviour) -> None:
        self.path = path
        self.behave = behave
        self.connections = 0
        self._open: set[socket.socket] = set()
        self.jobs: list[Job] = []
        path.unlink(missing_ok=True)
        super().__init__(str(path), _Handler)
        path.chmod(0o666)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening, hang up and remove the socket."""
        self.shutdown()
        self.server_close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.path.unlink(missing_ok=True)

    def note(self, connection: socket.socket) -> None:
        """Count a connection, and remember to end it."""
        self.connections += 1
        self._open.add(connection)

    def give(self, nodes: int, **more: Any) -> None:
        """Answer from now on with `nodes` nodes for everybody, and what else is said."""

        def answer(connection: socket.socket, line: bytes) -> None:
            job = json.loads(line)["job"]
            message = {"v": 1, "action": "set", "set": change(job, nodes), **more}
            connection.sendall(json.dumps(message).encode() + b"\n")

        self.behave = answer

    def say(self, **message: Any) -> None:
        """Answer with the same message from now on."""
        self.behave = say(json.dumps({"v": 1, **message}).encode() + b"\n")


class _Handler(socketserver.StreamRequestHandler):
    server: CannedNimod

    def handle(self) -> None:
        self.server.note(self.connection)
        with contextlib.suppress(OSError):
            for line in self.rfile:
                if line.isspace():
                    continue  # a question is about to come
                self.server.jobs.append(json.loads(line).get("job", {}))
                # A hook that hung up has sent more lines before.
                with contextlib.suppress(OSError):
                    self.server.behave(self.connection, line)


def change(job: Job, nodes: int) -> dict[str, int]:
    """What to write so that `job` runs on `nodes` nodes."""
    tasks = nodes * job.get("ntasks_per_node", 1)
    cpus = tasks * job.get("cpus_per_task", 1)
    result = {"min_nodes": nodes, "max_nodes": nodes, "min_cpus": cpus}
    return {**result, "num_tasks": tasks} if "num_tasks" in job else result


def say(text: bytes) -> Behaviour:
    """Answer with this text, whatever is asked."""
    return lambda connection, _: connection.sendall(text)


def hang(connection: socket.socket, line: bytes) -> None:
    """Take the request and never answer."""
