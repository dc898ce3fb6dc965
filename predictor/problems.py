"""Named reasons not to trust a prediction, and their words."""

from dataclasses import dataclass
from typing import Any, Final

#: Words by stable name; a name after a colon is a variant, of which only the words are another's.
WORDS: Final = {
    # What the observations show.
    "noisy_repeats": "runs on {nodes} nodes differ by {spread:.0%}: they may be of different "
    "problems, which a tag in the job's comment would separate",
    "drift": "run times {change} by {by:.0%} with the run of {when}; earlier runs are left out",
    "drift:scaled": "run times {change} by {by:.0%} with the run of {when}; on {stale} nodes none "
    "has finished since, so older times are scaled",
    "cut_short": "runs on {nodes} nodes were cut off, the longest after {limit}; a longer limit "
    "would show how long they take",
    "unbounded": "run time on {counts}: over {over} ({cut} of {starts} runs {how})",
    "cut_off": "{cut} of {starts} runs on {counts} {how}: it may take longer than predicted",
    "unfinished": "{which} of this command {what}",
    "pilot": "a pilot runs as long as it gets work: its run time says nothing of a longer or "
    "shorter limit",
    "session": "a session lasts as long as its user stays: its run time says nothing of a longer "
    "or shorter limit",
    "until_limit": "it runs until its limit: {runs} of the last {of} runs did{used}; a longer or "
    "shorter limit changes how long it runs, not what is left to do",
    "failed_steps": "steps of {failed} of the last {runs} completed runs failed or were cancelled: "
    "they may not have done their work",
    "record": "half of the last {predictions} predictions on node counts that {counts} were within "
    "{error:.0f} %, and {inside} inside their interval; a reliable prediction has half within 5 % "
    "and nine in ten within 20 %",
    # What the models of a curve show.
    "wide_interval": "{where} the prediction may be off by more than {off:.0f} %",
    "special_counts": "it runs well only on {family}; other node counts are left out",
    "declining_or_anomaly": "slower on {nodes} nodes than on fewer: the decline begins, or that "
    "run was unusual",
    "declining": "time rises again from {nodes} nodes on",
    "anomaly": "the run on {nodes} nodes does not fit those on fewer and more",
    "stepwise": "run time takes a step between {before} and {after} nodes",
    "high_fitting_error": "its curve is off by {error:.0%} from the runs on {nodes:.0f} nodes",
    "linear_section": "twice the nodes halve the run time on all counts that ran: where that ends "
    "is not known",
    "alternative_fit": "the runs do not show how far it scales: on {nodes} nodes it may take "
    "{shorter} or {longer}",
    "disagreement": "on {nodes} nodes the second model, ADEPT, predicts {other} instead of {own}",
    "two_sizes": "only {runs} run with this layout; the rest is predicted from other layouts",
    # Runs that are not one problem, or not the job's.
    "no_curve": "finished runs on {counts} only; a curve needs {least} node counts",
    "no_curve:moved": "only {runs} had another count than its job asked for: too few for a curve",
    "no_identity": "recognised by {by} only, which may stand for many applications",
    "not_one_problem": "several problems: runs on the same node count differ too much; "
    "'#SBATCH --comment=nimo:app={app},problem=INPUT' in the script, with another word for each "
    "input, separates them",
    "not_one_problem:two": "two kinds of runs: {few} of the last {runs} took about {short}, {many} "
    "about {long}; '#SBATCH --comment=nimo:app={app},problem=INPUT' in the script, with another "
    "word for each input, separates them",
    "several_problems": "several problems: run times differ by {names} (runs with {listed})",
    "layouts": "runs had {number} layouts ({listed}), each with its own curve",
    "undecided": "either jobs on more nodes had larger problems, or more nodes hardly help: the "
    "runs fit both, and one run with the same input on {where} would show which",
    "no_size": "the job does not name {names}, by which run times go: all that ran count",
    "not_run": "no job asked for {where}: predicted from those on {near}",
    "other_layout": "all runs had {had}, this job has {asked}: their run times do not apply",
    "other_models": "another release of NIMO made its prediction, which is not used: 'nimo fit' "
    "makes it anew",
    "new_work_dir": "no earlier run of this command was in this directory: its input may be "
    "different",
    "edited_script": "the script was edited after its last run: it may take longer, or shorter",
    "edited_script:until_limit": "the script was edited after its last run: whether it still runs "
    "until its limit is not known",
    "new_input": "an input file was changed after the last run of this command had started",
    # Other types of nodes.
    "few_on_node_type": "{runs} on {node_type}; the rest is predicted {how}",
    "few_on_node_type:moved": "too few runs on {node_type}: runs on other node types count, "
    "scaled to it",
    "unseen_node_type": "no run on {node_type}: predicted {how}",
    # Transfers.
    "nothing_measured": "nothing was measured from {source} to {target}: let 'nimo lab probe' "
    "measure, or record past transfers",
    "no_transfer": "no transfer from {source} to {target} is recorded, and a small probe alone is "
    "often off by half: record one",
    "no_probe": "no recent probe from {source} to {target}: only past transfers say how fast it "
    "is; let 'nimo lab probe' measure",
    "other_sizes": "no transfer of about {megabytes:.3g} MB is recorded: those of other sizes may "
    "be faster or slower",
    "few_transfers": "{tried} past transfers were predicted to compare with; {enough} would do",
    "erratic": "past predictions were off by {error:.0%} on average",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One named reason not to trust a prediction, in words, with the run that would improve it."""

    name: str  #: stable name, e.g. ``linear_section``
    text: str  #: plain words for users
    observe: int | None = None  #: node count where one more run would help most
    beyond: int = 0  #: it is about counts from this one on, none of them run; 0: about others, too


def problem(name: str, observe: int | None = None, beyond: int = 0, /, **facts: Any) -> Problem:
    """Report a problem by its name, with what its words need.

    observe, beyond: as in `Problem`.
    """
    return Problem(name.partition(":")[0], WORDS[name].format(**facts), observe, beyond)
