"""The values of a first configuration: proposed, changed by the admin, put into samples."""

import json
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from sacct_ingest.errors import ConfigError, SlurmError
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config
from slurm_plugin.config.settings_file import SOCKET
from slurm_plugin.doctor.installation import Installation
from slurm_plugin.doctor.slurm_checks import purge_days
from slurm_plugin.text.formatting import did_you_mean

STORE = "sqlite:////var/lib/nimo/nimo.db"
_CONTROLLER = re.compile(r"^SlurmctldHost\[\d+\]\s*= ([^(\s]+)(?:\(([^)]+)\))?", re.MULTILINE)
_PARTITION = re.compile(r"^PartitionName=(\S+)", re.MULTILINE)
_YAML = re.compile(r"^(?P<indent> {0,2})(?P<key>\w+):(?P<value>[^#\n]*?)(?P<comment>\s+#.*)?$")
_PAIR = re.compile(r"^(?P<key>\w+) = .*$", re.MULTILINE)


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What is written down."""

    cluster: str = ""  #: empty: scontrol is asked each time
    store: str = STORE
    socket: str = SOCKET
    mode: Mode = Mode.OBSERVE
    partitions: tuple[str, ...] = ()  #: the only ones whose jobs are looked at; none: all
    first_days: int = Config().ingest.first_days
    controllers: tuple[str, ...] = ()  #: of a login node: where its relay asks


def propose(installation: Installation) -> Answers:
    """Take from Slurm the cluster's name and how far back its accounting goes."""
    purge_after = purge_days(installation)
    first_days = Answers().first_days
    return Answers(
        cluster=installation.slurm.get("ClusterName", ""),
        first_days=first_days if purge_after is None else max(1, min(first_days, int(purge_after))),
    )


def controllers(installation: Installation) -> tuple[str, ...]:
    """Hosts of slurmctld in their order: the address where slurm.conf has one, else the name.

    Raises ConfigError: Slurm does not say.
    """
    text = installation.slurm_text if isinstance(installation.slurm_text, str) else ""
    hosts = tuple(address or name for name, address in _CONTROLLER.findall(text))
    if not hosts:
        raise ConfigError("which controller? scontrol names none; say --login-node HOST")
    return hosts


def partitions(installation: Installation) -> list[str]:
    """Names of Slurm's partitions; none where it does not answer."""
    try:
        return _PARTITION.findall(installation.run(("scontrol", "-o", "show", "partition")))
    except SlurmError:
        return []


def check(answers: Answers, names: Sequence[str]) -> None:
    """Check answers before they are written.

    names: partitions that Slurm has; empty: Slurm did not answer.
    Raises ConfigError: an answer is wrong; the message says how to fix it.
    """
    for name in answers.partitions if names else ():
        if name not in names:
            raise ConfigError(f"Slurm has no partition {name!r}; {did_you_mean(name, names)}")
    if "://" not in answers.store:
        raise ConfigError(
            f"{answers.store} is no database URL; write an SQLite file as sqlite:///FILE"
        )
    if urlsplit(answers.store).password:
        raise ConfigError(
            "every user can read nimo.yaml: leave the password out of the store's URL; PostgreSQL "
            "reads it from ~nimo/.pgpass, MariaDB with ?read_default_file=/var/lib/nimo/.my.cnf"
        )
    if not answers.socket.startswith("/"):
        raise ConfigError(f"{answers.socket}: give the full path of the socket, beginning with /")


def settings_text(sample: str, answers: Answers) -> str:
    """Give the text of nimo.yaml.

    sample: the commented file that is shipped.
    """
    shown: tuple[str, str] = answers.mode, "rules: []"
    if answers.partitions:
        rule = f"{{partition: {json.dumps(answers.partitions)}, mode: {answers.mode}}}"
        shown = "off", f"rules:\n  - {rule}"
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


def hook_settings(sample: str, answers: Answers, *, forward_deadline: bool) -> str:
    """Give the text of nimo_hook.conf; ``forward_deadline`` once slurmctld runs job_submit.lua.

    Where slurmctld would wait for nimod's answers, commands ask ahead.
    """
    waits = answers.mode in (Mode.ADVISE, Mode.ENFORCE)
    values = {
        "socket": answers.socket,
        "forward_deadline": "yes" if forward_deadline else "no",
        "ask_ahead": "yes" if forward_deadline and waits else "no",
        "look_at_inputs": "yes" if forward_deadline else "no",
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
    made = []
    section = ""
    for line in text.splitlines():
        match = _YAML.match(line)
        put = line
        if match:
            section = section if match["indent"] else match["key"]
            name = f"{section}.{match['key']}" if match["indent"] else section
            if name in values:
                put = f"{match['indent']}{match['key']}: {values[name]}{match['comment'] or ''}"
        made.append(put)
    return "\n".join(made) + "\n"
