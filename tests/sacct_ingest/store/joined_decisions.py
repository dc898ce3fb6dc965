"""Decisions and the jobs of the runs that they were joined with."""

NOTE = "JS1:abc NIMO1:0123456789ab:n=4,m=enforce"


def outcomes(store):
    """Ids of decisions and of the jobs of their runs."""
    return {
        row.decision_id: None if outcome is None else outcome.job_id
        for row, outcome in store.decisions.with_outcomes()
    }
