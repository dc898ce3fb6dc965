"""Decisions: node counts at ``sbatch``, advice for users, reports for admins."""
