"""Passing the token: rules one by one, then real processes, one of which is killed."""

import itertools
import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes import network, wire
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.ring import Clique, Ring
from sacct_ingest.probes.wire import Superseded
from sacct_ingest.records import Resource
from slurm_plugin.experiments.probe_command import Collector
from tests.processes import LONGEST_WAIT_S, free_ports, wait_until

CLIQUE = [Member(name, "127.0.0.1", 1) for name in "abc"]
FAST = ProbeSettings(period_s=0.0, timeout_s=0.1, hold_s=0.5)
#: A turn may take so long on a busy machine; a killed holder costs the test one time of holding.
PATIENT = {"period_s": 600.0, "timeout_s": 6.0, "hold_s": 24.0}


class Others:
    """The other hosts of a ring, as far as they answer."""

    def __init__(self, answers):
        self.asked = []
        self._answers = answers

    def __call__(self, to, request):
        self.asked.append((to.name, request["op"], tuple(request["generation"])))
        return self._answers(to.name, request)


@contextmanager
def running(others, settings=FAST, me=0):
    held = []
    stopped = threading.Event()
    ring = Ring(Clique(CLIQUE, me, others), settings, lambda token, until: held.append(token))
    thread = threading.Thread(target=ring.run, args=(stopped,))
    thread.start()
    try:
        yield ring, held
    finally:
        stopped.set()
        thread.join()


def accept(name, request):
    return {"ok": True, "holds": True}


def test_the_first_token_is_made_used_and_passed_on():
    others = Others(accept)
    with running(others) as (_, held):
        wait_until(lambda: others.asked, what="a token to be passed on")
    assert held[0] == (1, 0)
    assert others.asked[0] == ("b", "token", (1, 0))


def test_who_does_not_take_the_token_is_passed_by_with_a_new_generation():
    def dead_b(name, request):
        if name == "b":
            raise ProbeError("b: timed out")
        return accept(name, request)

    others = Others(dead_b)
    # However long it is until the offer: no token is made again meanwhile.
    with running(others, replace(FAST, hold_s=LONGEST_WAIT_S)) as (ring, _):
        wait_until(lambda: ("c", "token", (2, 0)) in others.asked, what="c's turn")
        assert ring.offer((1, 0)) == (2, 0)


def test_a_token_whose_holder_died_is_made_again_and_the_dead_passed_by():
    def b_takes_it_and_dies(name, request):
        if name == "b" and request["op"] == "holds":
            raise ProbeError("b: Connection refused")
        return accept(name, request)

    others = Others(b_takes_it_and_dies)
    with running(others):
        wait_until(lambda: ("c", "token", (2, 0)) in others.asked, what="c's turn")
    assert [each[1] for each in others.asked[:3]] == ["token", "holds", "holds"]


def test_a_token_that_never_comes_back_is_made_again():
    def b_passes_it_on(name, request):
        return {"ok": True, "holds": False}

    others = Others(b_passes_it_on)
    with running(others) as (_, held):
        wait_until(lambda: len(held) > 1, what="another token")
    assert held[:2] == [(1, 0), (2, 0)]


def test_an_old_token_is_refused_and_its_holder_may_not_probe():
    ring = Ring(Clique(CLIQUE, 0, Others(accept)), FAST, lambda *_: None)
    assert ring.offer((5, 1)) is None
    assert ring.offer((4, 2)) == (5, 1)
    assert ring.admit((4, 2)) == (5, 1)
    assert ring.admit((5, 2)) is None
    assert ring.superseded((5, 1))


def test_who_meets_a_newer_token_gives_up_its_own():
    def newer(name, request):
        raise Superseded(name, (9, 2))

    with running(Others(newer)) as (ring, _):
        wait_until(lambda: ring.superseded((8, 0)), what="the newer one")
        assert not ring.holds((1, 0))


def test_alone_it_goes_on_measuring():
    def nobody(name, request):
        raise ProbeError(f"{name}: no route to host")

    with running(Others(nobody)) as (_, held):
        wait_until(lambda: len(held) > 2, what="three turns")
        assert {type(one) for one in held} == {type(held[0])}


def test_a_ring_of_one_waits_for_no_token():
    clique = Clique([Member("only", "127.0.0.1")], 0, Others(lambda *_: {}))
    assert Ring(clique, ProbeSettings(timeout_s=LONGEST_WAIT_S), lambda *_: None).holding


KEY = b"a key that only tests know"
PROGRAM = """
import sys
from slurm_plugin.cli.nimo import main
sys.exit(main(sys.argv[1:]))
"""


class Sensors:
    """Three sensors as processes."""

    def __init__(self, folder, **settings):
        ports = free_ports(3)
        self.members = [
            Member(name, "127.0.0.1", port) for name, port in zip("abc", ports, strict=True)
        ]
        (folder / "key").write_bytes(KEY)
        hosts = [f"{each.name}={each.host}:{each.port}" for each in self.members]
        given = {"hosts": hosts, "key_file": str(folder / "key"), "spin_s": 0.05} | settings
        self.config = folder / "nimo.yaml"
        store = f"sqlite:///{folder / 'nimo.db'}"
        self.config.write_text(json.dumps({"store": store, "probes": given}))
        self.processes = {}
        self._folder = folder

    def start(self, member):
        options = ["probe", "--serve", "--name", member.name, "-v", "--config", str(self.config)]
        argv = [sys.executable, "-c", PROGRAM, *options, "--bind", f"{member.host}:{member.port}"]
        with (self._folder / f"{member.name}.log").open("ab") as log:
            self.processes[member.name] = subprocess.Popen(argv, stdout=log, stderr=log)
        wait_until(lambda: self.ask(member) is not None, what=f"sensor {member.name}")

    def ask(self, member, op="series"):
        try:
            return wire.ask(member, {"op": op}, key=KEY, timeout_s=LONGEST_WAIT_S)
        except ProbeError:
            return None

    def holder(self):
        """Give who has the token, seen twice: not one that is just passing it on."""
        result = [
            [m for m in self.members if (state := self.ask(m)) and state["holding"]]
            for _ in range(2)
        ]
        return result[0][0] if result[0] == result[1] and len(result[0]) == 1 else None

    def stop(self):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()


@pytest.fixture(scope="module")
def sensors(tmp_path_factory):
    # A long period: after a round the token rests with one host until somebody wakes them.
    made = Sensors(tmp_path_factory.mktemp("ring"), **PATIENT)
    try:
        for member in made.members:
            made.start(member)
        yield made
    finally:
        made.stop()


def test_the_token_survives_a_kill_of_its_holder(sensors):
    collector = Collector(sensors.members, ProbeSettings(**PATIENT), key=KEY)
    result = collector.measure_now().probes
    assert measured(result) == {*itertools.permutations("abc", 2)}
    wait_until(lambda: sensors.holder() is not None, what="the token to rest")
    dead = sensors.holder()
    sensors.processes[dead.name].send_signal(signal.SIGKILL)
    sensors.processes[dead.name].wait()

    alive = [each.name for each in sensors.members if each != dead]
    again = collector.measure_now()
    assert measured(again.probes) >= {*itertools.permutations(alive, 2)}
    wait_until(lambda: tried(collector, again.probes, alive, dead), what="tries")
    assert any(dead.name in reported for reported in again.unreachable)
    result += again.probes

    sensors.start(dead)
    whole = collector.measure_now().probes
    wait_until(
        lambda: measured(more(collector, whole)) == {*itertools.permutations("abc", 2)},
        what="the dead one to be back in the ring",
    )
    assert_one_at_a_time(result + whole)


def more(collector, result):
    result += collector.measure_now().probes
    return result


def tried(collector, result, alive, dead):
    """Whether both others have noted that the dead one could not be measured."""
    failed = {(p.source, p.target) for p in result if p.value is None and p.error}
    if failed >= {(name, dead.name) for name in alive}:
        return True
    more(collector, result)
    return False


def measured(probes):
    return {
        (p.source, p.target)
        for p in probes
        if p.resource is Resource.BANDWIDTH and p.value is not None
    }


def assert_one_at_a_time(probes):
    """No two messages were on their way at one time: all clocks are this machine's."""
    spans = sorted(
        (p.at_s, p.at_s + p.took_s)
        for p in probes
        if p.resource is Resource.BANDWIDTH and p.value is not None
    )
    assert len(spans) > 6
    for (_, end), (begin, _) in itertools.pairwise(spans):
        assert end <= begin


def test_sensors_answer_only_who_has_the_key(sensors):
    with pytest.raises(ProbeError, match="signed with another key"):
        wire.ask(sensors.members[0], {"op": "series"}, key=b"another", timeout_s=LONGEST_WAIT_S)
    with pytest.raises(ProbeError, match="no such request"):
        wire.ask(sensors.members[0], {"op": "shutdown"}, key=KEY, timeout_s=LONGEST_WAIT_S)
    with pytest.raises(ProbeError, match="at most"):
        request = {"op": "pair", "bytes": network.LARGEST_MESSAGE + 1, "echoes": 1}
        wire.ask(
            sensors.members[0], request | {"generation": [0, 0]}, key=KEY, timeout_s=LONGEST_WAIT_S
        )
