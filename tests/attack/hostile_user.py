"""One user's hostile acts, a program: ``hostile_user.py SOCKET SEED SECONDS UID GID [ACT]``.

It stands alone, and becomes that user once it is loaded: a user who cannot read this project.  It
ends after so many seconds; told to terminate, it ends sooner, after `LEAST` acts.  It prints how
often it did what, as JSON.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

LONG = 250_000
LEAST = 30


def connected(path):
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(1.0)
    channel.connect(path)
    return channel


def say(path, *lines):
    """Send lines on a connection of their own, and read some of what comes back."""
    with suppress(OSError), connected(path) as channel:
        for line in lines:
            channel.sendall(line + b"\n")
        channel.recv(65536)


def ask(op, **fields):
    return json.dumps({"v": 1, "op": op, **fields}).encode()


def broken_lines(path, dice):
    lines = [
        b'{"x":1,"op":"\xff"}',
        b'{"job":' + b"[" * dice.choice((900, 5_000, 100_000)),
        b'{"op":"status","x":' + b"[" * 1500 + b"]" * 1500 + b"}",
        b"\xff\xfe\x00" * 100,
        b'{"v":1,"op":"advise","job":{"name":"\\ud800","argv":["\\ud800"]}}',
        b'{"v":1,"job":{"time_limit":1' + b"0" * 5000 + b"}}",
        dice.randbytes(3000).replace(b"\n", b""),
    ]
    say(path, *dice.sample(lines, 3))


def somebody_elses(path, dice):
    job = {"user_name": "games", "user_id": 5, "comment": "nimo:app=cfd", "min_nodes": 8}
    ticket = f"{dice.getrandbits(48):012x}"
    for op in ("decide", "advise", "reload"):
        say(path, ask(op, job={**job, "ticket": ticket}), ask(op, one_way=True, job=job))


def long_texts(path, dice):
    body = "#!/bin/sh\n" + "\n".join(f"{dice.random()}" for _ in range(4000))
    texts = [
        "torchrun\n" + "srun " * 9000,
        "#SBATCH -N 1," * 9000,
        "nimo:" * 9000,
        ";nimo:," * 9000,
        "\U0001f600" * 20_000,
        body,
    ]
    job = {"min_nodes": 1, "max_nodes": 8, "script": dice.choice(texts), "name": "solve"}
    field = dice.choice(("comment", "deadline", "features", "exc_nodes", "tres_per_node", "name"))
    say(
        path,
        ask("advise", job={**job, field: dice.choice((*texts, "n[1-99999999]", "gres/" * 9000))}),
    )


def prepared(path, dice):
    command = {
        "program": dice.choice(("sbatch", "srun", "salloc")),
        "options": {"nodes": "1-8", "job-name": "solve", "time": str(dice.randrange(1, 999))},
        "argv": ["run.sh"],
        "script": "#!/bin/sh\n" + "x" * dice.randrange(LONG),
    }
    say(path, *[ask("prepare", command=command)] * 5)


def many_connections(path, dice):
    held = []
    with suppress(OSError):
        for _ in range(60):
            held.append(connected(path))
            held[-1].send(b"{")
    time.sleep(dice.random())
    for one in held:
        one.close()


def endless_line(path, dice):
    with suppress(OSError), connected(path) as channel:
        for _ in range(dice.randrange(20)):
            channel.sendall(b"a" * 65536)


def deaf(path, dice):
    with suppress(OSError), connected(path) as channel:
        for _ in range(500):
            channel.sendall(ask("status") + b"\n")


def big_lists(path, dice):
    """Lists as long as requests may have them, each another one."""
    first = dice.randrange(1000)
    nodes = ",".join(f"n[{n}-{n + 9}]" for n in range(first, first + 1200))[:16_000]
    licences = ",".join(f"l{n}:1" for n in range(first, first + 1200))[:8_000]
    job = {"min_nodes": 1, "max_nodes": 8, "name": "solve", "partition": "batch," * 150 + "batch"}
    ids = [dice.randrange(1, 50) for _ in range(1000)]
    say(
        path,
        ask("advise", job={**job, "exc_nodes": nodes, "licenses": licences}),
        ask("waits", job_ids=ids, tasks=list(range(1000))),
    )


def slow_reader(path, dice):
    """Have long answers made, and take them byte by byte."""
    held = []
    with suppress(OSError):
        for _ in range(12):
            held.append(connected(path))
            held[-1].sendall(ask(dice.choice(("applications", "report")), every=True) + b"\n")
        for _ in range(20):
            time.sleep(0.1)
            for one in held:
                one.recv(1)
    for one in held:
        one.close()


def only_tests(path, dice):
    del path
    nodes = str(dice.randrange(1, 9))
    argv = [
        "sbatch",
        "--test-only",
        "-N",
        nodes,
        "-t",
        "60",
        "--comment=nimo:app=cfd",
        "-J",
        "solve",
    ]
    subprocess.run([*argv, "--wrap=srun ./solve"], capture_output=True, check=False)


def anothers_job(path, dice):
    del path
    job = str(dice.randrange(1, 300))
    for change in ("comment=nimo:app=x", "timelimit=1", "adminComment=NIMO1:000000000000:n=1"):
        subprocess.run(
            ["scontrol", "update", f"jobid={job}", change], capture_output=True, check=False
        )


ACTS = (
    broken_lines, somebody_elses, long_texts, prepared, many_connections, endless_line, deaf,
    only_tests, anothers_job, big_lists, slow_reader,
)  # fmt: skip


def main():
    path, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    acts = [act for act in ACTS if act.__name__ in sys.argv[6:]] or ACTS
    os.setgroups([])
    os.setgid(int(sys.argv[5]))
    os.setuid(int(sys.argv[4]))
    dice, done, end_s = random.Random(seed), Counter(), time.monotonic() + seconds
    ending = []
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    while time.monotonic() < end_s and not (ending and done.total() > LEAST):
        act = dice.choice(acts)
        with suppress(OSError):
            act(path, dice)
        done[act.__name__] += 1
    sys.stdout.write(json.dumps({"uid": os.getuid(), **done}))


if __name__ == "__main__":
    main()
