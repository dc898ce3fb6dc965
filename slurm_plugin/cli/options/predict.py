"""Show the predicted run times of an application on each node count, with their intervals.

Without APPLICATION it lists applications with a scaling curve: all of them for root and the owner
of the store, their own for other users.  It fits a screen; --all shows all, and -v also by which
numbers run time goes, and what a name was made of.
"""

from slurm_plugin.cli import command_context, plot

EXAMPLE = """\
  nimo predict
  nimo predict wrf-d02
  nimo predict -u ada --sort=-runs -o application,runs,verdict
  nimo predict wrf-d02 --on oak
  nimo predict wrf-d02 --model adept
  nimo predict wrf-d02 --plot
  nimo predict wrf-d02 --plot wrf.svg
  nimo predict wrf-d02 -P | cut -d'|' -f1,2"""


def add_arguments(add: command_context.Options) -> None:
    """Declare the options."""
    add("application APPLICATION", "name of the application, or the start of its key", nargs="?")
    add(
        "--on NODE_TYPE|CLUSTER",
        "predict for nodes of this type, or of the types that this cluster has",
        default="",
    )
    add(
        "--model NAME",
        "draw the curve by this model: adept, averaged (default: as nimo fit did)",
        default="",
    )
    add("--all", "show all counts, and all that is known; without APPLICATION: list all")
    add.table("-o", "-n")
    add("-u --user USER", "list the applications of this user", default="")
    plot.add_plot(add)
    add.shared("parsable", "json", "local", "store", "config")
