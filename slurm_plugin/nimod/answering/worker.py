"""The process that answers what takes long: of ordinary class, with nothing that nimod needs.

It has a socket for each kind of question.  nimod sends pickles: pieces of state, then a question.
It gets lines: one that asks for a prediction table, or the answer.
"""

import logging
import os
import pickle
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from slurm_plugin.nimod.answering.questions import Answerer, WorkerState
from slurm_plugin.protocol.lines import encode
from slurm_plugin.text.log import set_up

#: Begins a line that asks for a table; answers begin with a brace.
TABLE = b"table "
_NICE = 0  #: nimod has less: submissions go first


def main() -> None:
    """Answer on the sockets whose numbers are the arguments, until nimod closes them."""
    set_up(logging.WARNING)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: nimod ends first
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    # Where memory is short it goes first.
    with suppress(OSError), Path("/proc/self/oom_score_adj").open("w", encoding="ascii") as file:
        file.write("1000")
    lanes = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    threads = [threading.Thread(target=_serve, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve(lane: socket.socket) -> None:
    """Answer one question after the other, until nimod ends."""
    received, sent = lane.makefile("rb"), lane.makefile("wb")

    def send(line: bytes) -> None:
        sent.write(line)
        sent.flush()

    def fetch(level: str, key: str) -> str | None:
        send(TABLE + encode((level, key)))
        text: str | None = pickle.load(received)  # noqa: S301 - of nimod
        return text

    # Closed whatever ends this: nimod waits for an answer.
    with suppress(EOFError, OSError), lane, received, sent:
        state = WorkerState(fetch)
        answerer = Answerer(state)
        while True:
            match pickle.load(received):  # noqa: S301 - of nimod
                case (str() as name, value):
                    state.take((name, value))
                case question:
                    send(answerer.answer(question))


if __name__ == "__main__":
    main()
