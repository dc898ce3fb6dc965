"""Advice by the store alone, for a job that is asked about and for one like an application's."""
