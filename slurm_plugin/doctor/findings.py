"""Findings: the results of checks."""

from enum import StrEnum

import msgspec


class FindingState(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"  #: it works, but not as well as it could
    ERROR = "error"  #: NIMO does not work with it
    SKIPPED = "skipped"  #: cannot be checked from here


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One result of one check."""

    check: str = ""
    state: FindingState
    message: str  #: the result of the check
    fix: str = ""  #: what to do about it; empty where nothing has to be done


def fine(message: str) -> Finding:
    """Say that something is as it should be."""
    return Finding(state=FindingState.OK, message=message)


def warning(message: str, fix: str) -> Finding:
    """Say what could be better, and how."""
    return Finding(state=FindingState.WARNING, message=message, fix=fix)


def wrong(message: str, fix: str) -> Finding:
    """Say what keeps NIMO from working, and how to fix it."""
    return Finding(state=FindingState.ERROR, message=message, fix=fix)


def skipped(message: str) -> Finding:
    """Say why something was not checked."""
    return Finding(state=FindingState.SKIPPED, message=message)
