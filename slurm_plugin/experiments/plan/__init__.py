"""Workflows: which task runs where, on how many nodes, and where its data is."""
