"""Reasons not to trust a prediction, in words: each is worded here, of the facts that show it."""

from typing import Any, Final

from predictor.types import Problem

#: Words by stable name; a name after a colon is a variant, of which only the words are another's.
WORDS: Final = {
    # What the observations show.
    "noisy_repeats": "runs on {nodes} nodes differ by {spread:.0%} among themselves: they may be "
    "different problems; a tag in the job's comment would separate them",
    "drift": "run times {change} by {by:.0%} with the run of {when}; earlier runs are left out",
    "drift:scaled": "run times {change} by {by:.0%} with the run of {when}; on {stale} nodes none "
    "has finished since, so older times are scaled",
    "cut_short": "runs on {nodes} nodes reached their limit of {limit}; a longer limit would show "
    "how long they take",
    "unfinished": "{which} of this command {what}",
    "failed_early": "{failed} of the last {runs} runs failed within {longest}: their output may "
    "say why",
    "record": "of the last {predictions} predictions on node counts that {counts} half were within "
    "{error:.0f} %, and {inside} inside their interval",
    # What the models of a curve show.
    "wide_interval": "{where} the prediction may be off by more than {off:.0f} %",
    "special_counts": "runs well only on {family}; other node counts are left out",
    "declining_or_anomaly": "slower on {nodes} nodes than on fewer: the decline begins, or that "
    "run was unusual",
    "declining": "time rises again from {nodes} nodes on",
    "anomaly": "the run on {nodes} nodes does not fit those on fewer and more",
    "stepwise": "run time takes a step between {before} and {after} nodes",
    "high_fitting_error": "its curve is off by {error:.0%} from the runs on {nodes:.0f} nodes",
    "linear_section": "run time still falls in proportion on all counts that were run: no run "
    "shows where that ends",
    "alternative_fit": "the runs do not show how far it scales: on {nodes} nodes it may take "
    "{shorter} or {longer}",
    "disagreement": "on {nodes} nodes the second model, ADEPT, predicts {other} instead of {own}",
    "two_sizes": "only {runs} run with this layout; the rest is predicted from other layouts",
    # Runs that are not one problem, or not the job's.
    "no_curve": "finished runs on {counts} only; a curve needs {least} node counts",
    "no_identity": "recognised by {by} only, which may stand for many applications",
    "not_one_problem": "several problems: runs on the same node count differ too much; "
    "'#SBATCH --comment=nimo:app={app},problem=INPUT' in the script, with another word for each "
    "input, separates them",
    "not_one_problem:two": "two kinds of runs: {few} of the last {runs} took about {short}, {many} "
    "about {long}; '#SBATCH --comment=nimo:app={app},problem=INPUT' in the script, with another "
    "word for each input, separates them",
    "several_problems": "several problems: run times differ by {names} (runs with {listed})",
    "layouts": "runs had {number} layouts ({listed}), each with its own curve",
    "other_layout": "all runs had {had}, this job has {asked}: their run times do not apply",
    "new_work_dir": "no earlier run of this command was in this directory: its input may be "
    "different",
    "new_input": "an input file was changed after the last run of this command had started",
    # Other types of nodes.
    "few_on_node_type": "{runs} on {node_type}; the rest is predicted {how}",
    "few_on_node_type:moved": "too few runs on {node_type}: runs on other node types count, "
    "scaled to it",
    "unseen_node_type": "no run on {node_type}: predicted {how}",
    # Transfers.
    "nothing_measured": "nothing was measured from {source} to {target}: let 'nimo probe' measure, "
    "or record past transfers",
    "no_transfer": "no transfer from {source} to {target} is recorded, and a small probe alone is "
    "often off by half: record one",
    "no_probe": "no recent probe from {source} to {target}: only past transfers say how fast it "
    "is; let 'nimo probe' measure",
    "other_sizes": "no transfer of about {megabytes:.3g} MB is recorded: those of other sizes may "
    "be faster or slower",
    "few_transfers": "{tried} past transfers were predicted to compare with; {enough} would do",
    "erratic": "past predictions were off by {error:.0%} on average",
}


def problem(name: str, observe: int | None = None, /, **facts: Any) -> Problem:
    """Report a problem by its name, with what its words need.

    observe: count on which one more run would help most.
    Raises KeyError: it has no words, or they need another fact.

    >>> problem("declining", nodes=16)
    Problem(name='declining', text='time rises again from 16 nodes on', observe=None)
    """
    return Problem(name.partition(":")[0], WORDS[name].format(**facts), observe)
