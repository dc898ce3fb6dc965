"""What helps with the first run of a command: whether its time limit leaves room, how to learn."""

from predictor.types import Prediction
from sacct_ingest.text.durations import duration_text
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.request import Request
from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.protocol.reasons import Reason


def describe_first_run(advice: Advice, request: Request, shown: Option | None) -> None:
    """Say of a command that never ran whether its limit leaves room, and how its size is learnt.

    shown: what is said of the size that it gets; None: nothing.
    """
    if shown is None or request.fixed is Reason.HET:
        return
    advice.limit_text = advice.limit_text or limit_text(shown.prediction, request)
    texts = (size_text(request), advice.size_text)
    advice.size_text = " ".join(text for text in texts if text)


def limit_text(prediction: Prediction, request: Request) -> str:
    """Say whether the time limit of a job leaves room for what is guessed; empty: it has none.

    A guess goes by the limit, too, and never beyond it: one that reaches it leaves no room.

    prediction: the guess, on the size that the job gets.
    """
    limit_s = request.asked_limit_s
    if not limit_s or prediction.unbounded:
        return ""
    limit = duration_text(limit_s)
    if limit_s <= prediction.high_s:
        return f"Its time limit of {limit} may be short: some such jobs take all of it."
    return f"Keep its time limit of {limit} for the first run: its runs will say which is enough."


def size_text(request: Request) -> str:
    """Say how to learn which size of its range is best for a job; empty: it asks for one size."""
    if request.low >= request.high:
        return ""
    most = request.unit.counted(request.high)
    return (
        f"No run shows yet what is best of {request.low} to {most}: "
        "'nimo scale' tries several counts."
    )
