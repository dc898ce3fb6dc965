"""A stand-in for sacct: tells a made-up accounting as slurmdbd would, or fails as it was told to.

Beside it lie ``history``, ``now`` (the time) and ``fault``: which call fails, how, and after which
share of its output.  It imports next to nothing, since it is started thousands of times.
"""

import marshal
import os
import signal
import sys
import time

HERE = sys.argv[0].rpartition("/")[0]
COLUMNS = (
    "JobIDRaw JobID Cluster User State Submit Start End NNodes Comment AdminComment SubmitLine "
    "WorkDir JobName ElapsedRaw"
)


def beside(name: str) -> object:
    with open(f"{HERE}/{name}", "rb") as file:  # noqa: PTH123 - pathlib takes 10 ms to load
        return marshal.load(file)


def main() -> None:
    if "--helpformat" in sys.argv:
        sys.stdout.write(COLUMNS + "\n")
        return
    given = dict(word.partition("=")[::2] for word in sys.argv[1:])
    answer(text(given).encode())


def text(given: dict[str, str]) -> str:
    begin_s, end_s = int(given["--starttime"][3:]), int(given["--endtime"][3:])
    ids = set(given["--jobs"].split(",")) if "--jobs" in given else None
    names = given["--format"].split(",")
    now_s = beside("now")
    word = os.environ["SLURM_TIME_FORMAT"].removeprefix("%s")

    def line(row: dict[str, str]) -> list[str]:
        values = {name: row.get(name, "") for name in names}
        for name in ("Submit", "Start", "End"):
            if values.get(name, "").isdecimal():
                values[name] += word
        return list(values.values())

    lines = [names]
    for entry in beside("history"):
        job, reported = entry["rows"][0], entry["from_s"] <= now_s < entry["to_s"]
        if not reported or not begin_s <= entry["spans"][0][1] <= end_s:
            continue
        if ids is not None and job["JobIDRaw"] not in ids:
            continue
        lines.append(line(job))
        for row, (first_s, last_s) in zip(entry["rows"][1:], entry["spans"][1:], strict=True):
            # As slurmdbd does: only the steps that touch the window.
            if first_s <= end_s and last_s >= begin_s:
                lines.append(line(row))
    return "".join(given["--delimiter"].join(values) + "\n" for values in lines)


def answer(data: bytes) -> None:
    plan = beside("fault")
    calls = os.open(f"{HERE}/calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(calls, b".")
    if plan.get("call") != os.fstat(calls).st_size:
        sys.stdout.buffer.write(data)
        return
    cut = data[: round(len(data) * plan["share"])]
    sys.stdout.buffer.write(cut)
    if plan["kind"] == "garbage":
        sys.stdout.buffer.write(bytes(range(256)) * 3 + b"\nsegfault at 0\n")
    sys.stdout.buffer.flush()
    if plan["kind"] == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if plan["kind"] == "silence":
        ingest = os.getppid()
        while os.getppid() == ingest:  # who asked may be killed
            time.sleep(0.05)
    # A truncated answer that is told as a success is only caught within a line.
    cut_in_line = not cut.endswith(b"\n")
    sys.stdout.flush()
    os._exit(0 if plan["kind"] == "cut" and cut_in_line else 1)


main()
