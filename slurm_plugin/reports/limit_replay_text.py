"""What limits to plan with would have given: the table, and what to do."""

from collections.abc import Iterator, Sequence

from sacct_ingest.text.durations import duration_text
from slurm_plugin.replay.soft_limits import LimitFigures, LimitReplay
from slurm_plugin.text import table_columns as cols
from slurm_plugin.text.formatting import count, printable, wrapped
from slurm_plugin.text.streams import Heading


def limits_table(figures: Sequence[LimitFigures]) -> cols.Table:
    """Make the table of the ways to plan, that of the users' limits first."""
    over = "over that under the users' limits"
    columns = [
        cols.Column("method", "planned by", left=True),
        cols.Column("quantile", "quantile", as_text="{:g}".format, meaning="of NIMO's predictions"),
        cols.Column("wait", "wait", as_text=cols.FACTOR, meaning=f"mean wait {over}"),
        cols.Column("slowdown", "slowdown", as_text=cols.FACTOR, meaning=f"mean slowdown {over}"),
        cols.Column(
            "twice_slower",
            "slower x2",
            as_text=cols.SHARE,
            meaning="jobs whose turnaround more than doubled",
        ),
        cols.Column(
            "twice_faster",
            "faster x2",
            as_text=cols.SHARE,
            meaning="jobs whose turnaround more than halved",
        ),
        cols.Column(
            "extended",
            "outlasted",
            as_text=cols.SHARE,
            meaning="jobs that ran longer than planned, to their users' limits at most",
        ),
        cols.Column(
            "users_worse",
            "worse off",
            show=lambda one: f"{one.users_worse} of {count(one.users, 'user')}",
            meaning="users whose mean wait grew by more than a twentieth and a minute",
        ),
        cols.Column("users", "users", worth=cols.ON_REQUEST),
        cols.Column(
            "worst_s",
            "longest",
            as_text=cols.SECONDS,
            worth=cols.ON_REQUEST,
            meaning="how much longer the mean wait is of the user to whom it costs most",
        ),
    ]
    return cols.Table(columns, figures, "limits")


def render(
    made: LimitReplay, options: cols.TableOptions, *, width: int = cols.WIDTH
) -> Iterator[str]:
    """Give the parts of the answer for a terminal: what to do, the table, what it is of."""
    for line in verdict(made):
        yield Heading(wrapped(line, width))
    yield f"\n{limits_table(made.figures).text(options, width=width)}\n"
    yield wrapped(
        f"{made.log}: {count(made.jobs, 'job')}; waits and slowdowns over those under the users' "
        "limits",
        width,
    )


def verdict(made: LimitReplay) -> Iterator[str]:
    """Say whether to switch such limits on, and whom they cost most."""
    quantile = None if made.outlasted_share is None else round(1 - made.outlasted_share, 3)
    chosen = next((one for one in made.figures if one.quantile == quantile), None)
    if chosen is None or quantile is None:
        yield "Leave it: no quantile makes waits shorter by 3 %, and in neither half longer."
        return
    yield f"Suggested: time_limit: {{soft: on, outlasted_share: {made.outlasted_share:g}}}"
    if chosen.worst_user:
        who = printable(chosen.worst_user)
        yield f"The worst off is {who}: a mean wait longer by {duration_text(chosen.worst_s)}."
