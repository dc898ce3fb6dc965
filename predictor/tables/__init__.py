"""Prediction tables: from the runs of one identity to run time, interval and verdict by size."""
