"""What came of decisions: predictions and waits compared with the jobs that ran."""
