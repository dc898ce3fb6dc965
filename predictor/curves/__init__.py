"""Runs of one problem as a curve over sizes: repeats, outliers, drift, and how far to trust it."""
