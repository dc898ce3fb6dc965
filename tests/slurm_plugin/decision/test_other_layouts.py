"""Layouts side by side, and the options that ask for each."""

import pytest

from sacct_ingest.runs.layout import Layout, Unit
from slurm_plugin.decision.other_layouts import layout_options, layout_rows
from tests.slurm_plugin.made import table

ON_A100, ON_V100 = Layout(4, gpus=4, gpu_type="a100"), Layout(4, gpus=4, gpu_type="v100")


@pytest.mark.parametrize(
    ("gpu_types", "spelled"), [(("A100", "v100"), "A100"), ((), "a100"), (("V100",), "a100")]
)
def test_types_of_gpus_are_spelled_as_nodes_have_them(gpu_types, spelled):
    tables = [table(key="a", layout=ON_A100), table(key="v", layout=ON_V100)]
    first, second = layout_rows(tables, tables[0], 2, gpu_types)
    assert first.options == f"--nodes=2 --ntasks-per-node=4 --gpus-per-node={spelled}:4"
    assert first.layout == f"4 tasks and 4 {spelled} GPUs on each node"
    assert "100:4" in second.options
    assert (first.own, second.own) == (True, False)


def test_no_option_asks_for_gpus_of_several_types():
    assert layout_options(Layout(gpus=4, gpu_type="a100+v100"), Unit.NODES, 2) == ""
