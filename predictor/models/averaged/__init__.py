"""Averaged."""
