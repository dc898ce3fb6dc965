"""What was predicted and decided, beside what happened: for terminals, scripts and logs."""
