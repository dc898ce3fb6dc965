"""Whether accounting is still being read: other marks of the store do not hide that it is not."""

import time
from argparse import Namespace

from sacct_ingest.store import Store
from sacct_ingest.store.ingests import REFITTED
from slurm_plugin.cli.commands.doctor import installation_of
from slurm_plugin.doctor import FindingState
from slurm_plugin.doctor.nimo_checks import learned


def test_a_fresh_mark_of_something_else_is_no_ingest(tmp_path):
    url, now_s = f"sqlite:///{tmp_path}/nimo.db", int(time.time())
    with Store.open(url) as store:
        store.watermarks.set("sacct:pine", now_s - 10 * 86_400)
        for name in ("sacct:pine again", "sacct:pine since 1", "standings"):
            store.watermarks.set(name, now_s)
    ingest, fit = learned(installation_of(Namespace(config=None, store=url)))
    assert ingest.state is fit.state is FindingState.WARNING
    assert ingest.message.startswith("accounting read ")
    assert "no nimo fit yet" in fit.message


def test_saved_files_alone_are_no_news(tmp_path):
    url = f"sqlite:///{tmp_path}/nimo.db"
    with Store.open(url) as store:
        store.watermarks.set(REFITTED, int(time.time()))
    files, fit = learned(installation_of(Namespace(config=None, store=url)))
    assert (files.state, fit.state) == (FindingState.WARNING, FindingState.OK)
    assert files.message.startswith("only saved files were read")
