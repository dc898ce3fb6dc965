"""Which states of nodes keep jobs from them: down, drained, draining, failing.  Pure."""

#: Nodes that start no job until somebody does something (sinfo(1), NODE STATE CODES).
UNUSABLE = frozenset({
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN", "FUTURE",
    "INVAL", "INVALID_REG", "BLOCKED", "NOT_RESPONDING", "NO_RESPOND", "REBOOT", "REBOOT_ISSUED",
    "REBOOT_REQUESTED",
})  # fmt: skip
