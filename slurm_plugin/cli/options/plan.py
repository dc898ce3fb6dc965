"""Plan a workflow: where each task runs, on how many nodes, and where its data goes.

It prints the best plan, alternatives, and the command lines of sbatch; --submit submits them.
"""

from pathlib import Path

from slurm_plugin.cli.command_context import Options, moment
from slurm_plugin.cli.common_options import not_negative, positive

EXAMPLE = """\
  nimo lab plan workflow.yaml
  nimo lab plan --deadline now+2hours workflow.yaml
  nimo lab plan --submit --follow workflow.yaml
  nimo lab plan --follow workflow.yaml           # go on with one that was submitted
  nimo lab plan --site site.yaml instance.json   # of WfCommons, Snakemake or Nextflow"""


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("workflow WORKFLOW", "YAML file, or a workflow of another system", type=Path)
    add("--site FILE", "storages, links and places, where WORKFLOW has none", type=Path)
    add("--trace FILE", "trace of a Nextflow DAG: its tasks and run times", type=Path)
    add("--deadline TIME", "time by which all tasks must have ended", type=moment)
    add("--confidence SHARE", "probability of meeting the deadline (default: 0.95)", default=0.95)
    add("--submit", "submit the first plan")
    add("--dry-run", "only print the plans (the default)")
    add("--follow", "follow the jobs, print progress")
    add("--fixed", "follow the plan without changing it")
    add(
        "--slip S",
        "allowed difference from the plan, besides a tenth of a step's time (%(default)g s)",
        type=not_negative,
        default=30.0,
    )
    add("--hard", "let Slurm end jobs that will miss the deadline")
    add("--budget NODE-HOURS", "submit no job that might exceed it", type=positive)
    add("--leave", "leave the jobs in the queue where it is interrupted")
    add("--empty", "plan for idle clusters, without asking Slurm")
    add.shared("json", "store", "config")
