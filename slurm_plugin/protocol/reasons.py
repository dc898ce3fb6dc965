"""Why a job was given the node count that it has: stable names with plain words."""

from enum import StrEnum

#: Stands for a reason where a job does not have the change that was sent for it.
NOT_APPLIED = "not_applied"


class Reason(StrEnum):
    """Reason of a decision; :attr:`text` is the sentence for people."""

    text: str

    def __new__(cls, name: str, text: str) -> "Reason":
        """Make a member that is its name and carries its text."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.text = text
        return member

    # The count was chosen.
    CHEAPEST = ("cheapest", "this count costs least: wait, run time and the delay of queued jobs")
    LEAST_NODE_TIME = (
        "least_node_time",
        "this count takes the least node time, and ends about as early",
    )
    ROOM_FOR_OTHERS = (
        "room_for_others",
        "the cheapest count that leaves enough free nodes for others",
    )
    DEADLINE = "deadline", "the cheapest count that makes the deadline"
    LEARNING = "learning", "this count was not tried yet, to learn how the application scales"
    PROVEN = "proven", "it has run on a count that would be better"
    MEMORY = "memory", "runs on the count that it would get had too little memory"
    # The request stands.
    BEST_ALREADY = "best_already", "no other count is better"
    OFF = "off", "NIMO is switched off for this job"
    OPTED_OUT = "opted_out", "the comment says nimo:off"
    NOT_OPTED_IN = "not_opted_in", "the job does not ask for a range of node counts"
    FIXED_COUNT = "fixed_count", "the job asks for one node count"
    FIXED_TASKS = "fixed_tasks", "the job asks for a number of tasks, which fixes its layout"
    FIXED_CPUS = "fixed_cpus", "the job asks for a number of CPUs or of devices in total"
    FIXED_BY_SCRIPT = (
        "fixed_by_script",
        "the script sets its number of nodes, threads, tasks or GPUs itself",
    )
    INTERACTIVE = (
        "interactive",
        "only a batch job can be given other numbers of tasks, CPUs or GPUs",
    )
    OLD_HOOK = (
        "old_hook",
        "the hook beside slurmctld is of an older release, which changes node counts only",
    )
    ARRAY = "array", "job arrays keep what they ask for"
    HET = "het", "the components of a heterogeneous job keep what they ask for"
    RESERVATION = "reservation", "the job runs in a reservation"
    NODE_LIST = "node_list", "the job names its nodes"
    EXCLUDED_NODES = "excluded_nodes", "the job excludes nodes"
    NODE_SIZES = "node_sizes", "the job lists the node counts that it can run on"
    LAYOUT = "layout", "the job asks for contiguous nodes or few switches"
    DEPENDENCY = "dependency", "the job shares or depends on the layout of another one"
    UNKNOWN_PARTITION = (
        "unknown_partition",
        "the partition is unknown or down, or the job names several that differ",
    )
    NO_SNAPSHOT = "no_snapshot", "NIMO has not read the state of the cluster yet"
    STALE_SNAPSHOT = "stale_snapshot", "NIMO has not read the state of the cluster for too long"
    NEW_SHAPE = ("new_shape", "NIMO is still counting the nodes that fit this kind of job")
    PROCESSOR_TIME = (
        "processor_time",
        "its lists or its script are too long for NIMO to decide in time",
    )
    UNKNOWN_APPLICATION = "unknown_application", "NIMO has no finished run of this application"
    NO_FINISHED_RUN = "no_finished_run", "no run of this command has finished"
    OTHER_MODELS = (
        "other_models",
        "another release of NIMO made its prediction; 'nimo fit' makes it anew",
    )
    NO_CURVE = "no_curve", "its runs are on too few node counts for a scaling curve"
    NAME_ONLY = (
        "name_only",
        "this is a new command: only other jobs of its user or name are known; "
        "--comment=nimo:app=NAME says which belong together",
    )
    MIXED_RUNS = "mixed_runs", "its runs differ in layout or problem, too few of each for a curve"
    SERIAL = "serial", "all its runs used one CPU, so one node is enough"
    ONE_COUNT = "one_count", "its runs do not show what other node counts would take"
    UNDECIDED = ("undecided", "its runs do not tell whether jobs on more nodes had larger problems")
    UNRELIABLE_CURVE = "unreliable_curve", "the prediction is not reliable enough"
    CUT_OFF = "cut_off", "so many of its runs were cut off that no run time is known"
    OTHER_LAYOUT = "other_layout", "none of its runs had this layout of tasks, CPUs or GPUs"
    OUT_OF_BAND = (
        "out_of_band",
        "its latest runs took far longer or shorter than predicted, or ended later than promised",
    )
    NO_OWN_LENGTH = (
        "no_own_length",
        "it is a pilot, a session or a job that runs until its limit: its work does not say how "
        "long it runs",
    )
    OTHERS_RUNS = "others_runs", "the prediction is from other users' runs, which are advice only"
    FEW_OWN_RUNS = "few_own_runs", "its user has finished too few runs of it"
    DISTRUSTED = "distrusted", "the site has set this application to observe only"
    OUTSIDE_CURVE = "outside_curve", "there is no prediction for this node count"
    BEYOND_LIMITS = (
        "beyond_limits",
        "the partition or QOS does not allow that many nodes, or that much memory on each",
    )
    NO_CHOICE = "no_choice", "the limits of partition and memory leave one count only"
    OUTSIDE_GUARD = "outside_guard", "all other counts would delay this job too much"
    NO_ROOM_TO_GROW = (
        "no_room_to_grow",
        "more nodes would end it sooner, but this site keeps them free for others",
    )
    LIMIT_TOO_LONG = "limit_too_long", "fewer nodes need a time limit that is not allowed"
    # Deadlines.
    DEADLINE_MISSED = "deadline_missed", "no allowed node count makes the deadline"
    DEADLINE_LIMIT = "deadline_limit", "the time limit reaches beyond the deadline"
    DEADLINE_UNSURE = "deadline_unsure", "the deadline is made only if the job starts in time"
    DEADLINE_UNREADABLE = "deadline_unreadable", "the deadline cannot be read"


#: Reasons that are about a deadline that may be missed.
MISSED = frozenset({Reason.DEADLINE_MISSED, Reason.DEADLINE_LIMIT, Reason.DEADLINE_UNSURE})
#: Plain words for why a job passed unchanged: a reason, or the mode that forbade a change.
WORDS = {
    **{reason.value: reason.text for reason in Reason},
    "observe": "in observe mode no job is changed",
    "advise": "in advise mode users get a message and no job is changed",
    NOT_APPLIED: "the change came too late for the job",
}
