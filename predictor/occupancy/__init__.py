"""Occupancy."""
