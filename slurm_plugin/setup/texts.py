"""Answers as files of settings: the commented samples with the values put in.  Pure."""

import json
import re
from collections.abc import Mapping

from slurm_plugin.config.setting_types import Mode
from slurm_plugin.setup.answers import Answers

_YAML = re.compile(r"^(?P<indent> {0,2})(?P<key>\w+):(?P<value>[^#\n]*?)(?P<comment>\s+#.*)?$")
_PAIR = re.compile(r"^(?P<key>\w+) = .*$", re.MULTILINE)


def settings(sample: str, answers: Answers) -> str:
    """Give the text of nimo.yaml.

    sample: the commented file that is shipped.
    """
    shown = (answers.mode, "rules: []") if not answers.partitions else ("off", _rules(answers))
    filled = with_values(
        sample,
        {
            "cluster": json.dumps(answers.cluster),
            "store": json.dumps("" if answers.controllers else answers.store),
            "relay.controllers": json.dumps(answers.controllers),
            "socket": json.dumps(answers.socket),
            "mode": shown[0],
            "ingest.first_days": str(answers.first_days),
        },
    )
    return filled.replace("\nrules: []\n", f"\n{shown[1]}\n", 1)


def _rules(answers: Answers) -> str:
    return f"rules:\n  - {{partition: {json.dumps(answers.partitions)}, mode: {answers.mode}}}"


def hook_settings(sample: str, answers: Answers, *, forward_deadline: bool) -> str:
    """Give the text of nimo_hook.conf; ``forward_deadline`` once slurmctld runs job_submit.lua.

    Where slurmctld would wait for nimod's answers, commands ask ahead.
    """
    waits = answers.mode in (Mode.ADVISE, Mode.ENFORCE)
    values = {
        "socket": answers.socket,
        "forward_deadline": "yes" if forward_deadline else "no",
        "ask_ahead": "yes" if forward_deadline and waits else "no",
    }
    return _PAIR.sub(
        lambda match: (
            f"{match['key']} = {values[match['key']]}" if match["key"] in values else match[0]
        ),
        sample,
    )


def with_values(text: str, values: Mapping[str, str]) -> str:
    r"""Put values into a commented YAML file of one or two levels; comments stay.

    >>> with_values("fit:\n  workers: 0  # processes\n", {"fit.workers": "2"})
    'fit:\n  workers: 2  # processes\n'
    """
    made, section = [], ""
    for line in text.splitlines():
        match, put = _YAML.match(line), line
        if match:
            section = section if match["indent"] else match["key"]
            name = f"{section}.{match['key']}" if match["indent"] else section
            if name in values:
                put = f"{match['indent']}{match['key']}: {values[name]}{match['comment'] or ''}"
        made.append(put)
    return "\n".join(made) + "\n"
