"""Replay the site's history in a simulated scheduler: as users asked, and under the policy.

Run times on other node counts come from the curves of the history.  The policy uses only runs that
ended before the replay begins.  Nothing is submitted and nothing is stored.
"""

from pathlib import Path

from slurm_plugin.cli import command_context
from slurm_plugin.cli.common_options import positive, share, whole

EXAMPLE = """\
  nimo replay                               # the store, with the settings in force
  nimo replay --suggest -p batch            # the best price, guard and bystanders
  nimo replay --load 0.7 --load 0.9 -S now-60days
  nimo replay --suggest --sort=response_ratio -o price,guard,response_ratio
  nimo replay --limits -p batch             # is time_limit.soft worth it here?
  nimo replay --assume 0.5 KTH-SP2.swf.gz   # a log without curves: half of its jobs moldable"""


#: Settings of ``policy.bystanders``.
BYSTANDERS = ("group", "each")


def add_arguments(add: command_context.Options) -> None:
    """Declare the options."""
    add("files FILE", "saved histories instead of the store", nargs="*", type=Path)
    add("-S --since TIME", "jobs submitted since this time", type=command_context.moment)
    add("-E --until TIME", "and before", type=command_context.moment)
    add("-M --cluster CLUSTER", "jobs of this cluster", default="")
    add("-p --partition PARTITION", "jobs of this partition", default="")
    add(
        "-N --nodes NODES",
        "nodes of the cluster (default, and 0: by the log's header, or those that jobs name)",
        type=whole,
    )
    add(
        "--learn SHARE",
        "share of the history that the policy learns from; the rest is replayed (default: 0.5)",
        type=share,
        default=0.5,
    )
    add(
        "--range FACTOR",
        "moldable jobs may get from 1/FACTOR to FACTOR times their nodes (default: 4)",
        type=positive,
        default=4.0,
    )
    add(
        "--adopt SHARE",
        "share of the moldable jobs that take part: 1 is enforce, less is advise (default: 1)",
        type=share,
        default=1.0,
    )
    add(
        "--assume SHARE",
        "assume made-up curves for this share of all jobs: for logs without curves",
        type=share,
    )
    add("--sjbf", "backfill the shortest jobs first")
    for name, what in (
        ("load", "scale the times between submissions to this load"),
        ("price", "try this policy.price"),
        ("guard", "try this policy.guard_ratio"),
    ):
        add(
            f"--{name} NUMBER",
            f"{what}; can be given several times",
            type=positive,
            action="append",
            default=[],
        )
    add(
        "--bystanders",
        "try this policy.bystanders; can be given several times",
        choices=BYSTANDERS,
        action="append",
        default=[],
    )
    add(
        "--limits",
        "what limits to plan with (time_limit.soft) would have given, and whom they cost",
    )
    add("--suggest", "search for price, guard and bystanders")
    add("--seed SEED", "seed of the random draws", type=int, default=1)
    add("--workers COUNT", "processes; 0: one per core", type=whole, default=0)
    add("--dask ADDRESS", "replay on a Dask cluster; see nimo fit")
    add.table_of_store()
