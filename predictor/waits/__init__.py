"""When a job starts: the queue simulated, corrected by what came of earlier estimates."""
