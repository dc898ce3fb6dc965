"""Energy that Slurm's RAPL plugin measured, from slurmd's sensor to advice.

The sensor is a stand-in: a file in place of the processor's registers, whose energy counter goes up
by 250 W.  Slurm reads, books and accounts it as it does real ones.
"""

import json
import os
import struct
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import scratch_directory, unavailable
from tests.end_to_end.site import site_on

pytestmark = pytest.mark.cluster

WATTS = 250.0
#: Registers of Intel's processors: units, and energy of the package; 2^-14 J are one.
_UNITS, _ENERGY, _SIZE = 0x606, 0x611, 0x700
_JOULE = 2**14
GATHER = "AcctGatherEnergyType=acct_gather_energy/rapl", "AcctGatherNodeFreq=1"


@pytest.fixture(scope="module")
def site(slurm_cluster):
    if os.getuid() != 0 or not Path("/dev/cpu/0").is_dir():
        unavailable("not root, or no /dev/cpu/0 to mount registers on")
    with scratch_directory("nimo-registers-") as folder:
        registers, ended = folder / "msr", threading.Event()
        registers.write_bytes(bytes(_SIZE))

        def count():
            with registers.open("r+b", buffering=0) as file:
                os.pwrite(file.fileno(), struct.pack("<Q", 14 << 8), _UNITS)
                began = time.monotonic()
                while not ended.wait(0.05):
                    used = int(WATTS * _JOULE * (time.monotonic() - began)) % 2**32
                    os.pwrite(file.fileno(), struct.pack("<Q", used), _ENERGY)

        sensor = threading.Thread(target=count, daemon=True)
        sensor.start()
        try:
            with site_on(slurm_cluster, nodes=2, cpus=2, conf=GATHER, registers=folder) as made:
                yield made
        finally:
            ended.set()
            sensor.join()


def test_advice_has_what_the_sensor_measured_on_whole_nodes(site):
    script = site.write_script("heat.sh", "#!/bin/sh\nsrun sleep 12\n")
    whole, half = ("-Jheat", "-N1", "-n2", "-t5"), ("-Jhalf", "-N1", "-n1", "-t5")
    ids = [site.submit(*argv, script=script) for argv in (whole, half) for _ in range(4)]
    site.cluster.wait(*ids, accounted=True)
    site.learn()
    site.run_nimod("advise", energy={"pue": 1.2, "node_hour": 3.0})

    def advised(*argv):
        said = site.cluster.run("nimo-advise", "--json", *argv, str(script), check=False)
        advice = json.loads(said.stdout)
        return advice, next(one for one in advice["rows"] if one["nodes"] == 1)

    advice, row = advised(*whole)
    assert advice["energy_text"].startswith("kWh as measured: 2")
    assert 0.8 * WATTS < row["kwh"] * 3.6e6 / 1.2 / row["time_s"] < 1.2 * WATTS
    assert row["cost"] == pytest.approx(3 * row["time_s"] / 3600)
    advice, row = advised(*half)
    assert (advice["energy_text"], row["kwh"], row["cost"] > 0) == ("", None, True)
