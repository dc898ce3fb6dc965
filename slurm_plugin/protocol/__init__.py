"""Messages between the hooks, ``nimo-advise`` and nimod: one JSON object a line, versioned.

A peer answers a message of another ``v`` with ``ok: false`` and its own version; the hooks then
let the job pass.  Unknown fields are ignored and new ones have defaults, so that releases in a row
understand each other without a new version (``tests/data/messages-*.json``: what they sent).  Where
a meaning has to change, nimod speaks both versions for one release before the hooks begin with the
new one.

`slurm_plugin.protocol.query_messages` is apart: prediction tables and records take long to load.
"""
