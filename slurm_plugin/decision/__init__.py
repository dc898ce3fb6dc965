"""What a job gets, and why: context, candidates, policy, answer, advice and audit."""
