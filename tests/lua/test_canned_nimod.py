"""The server that stands in for nimod in the tests of the hooks."""

import socket
import threading
from pathlib import Path

from tests.conftest import scratch_directory
from tests.lua.canned_nimod import CannedNimod
from tests.processes import LONGEST_WAIT_S, wait_until


def test_lines_of_a_hook_that_has_gone_are_still_read():
    gone = threading.Event()

    def answer_too_late(connection: socket.socket, line: bytes) -> None:
        assert gone.wait(LONGEST_WAIT_S)
        connection.sendall(b"{}\n")

    with scratch_directory("nimo-canned-") as directory:
        server = CannedNimod(Path(directory) / "s", answer_too_late)
        try:
            with socket.socket(socket.AF_UNIX) as hook:
                hook.connect(str(server.path))
                hook.sendall(b'{"job": {}}\n' * 3)
            gone.set()
            wait_until(lambda: len(server.jobs) == 3, what="all three lines", timeout_s=20)
        finally:
            server.stop()
