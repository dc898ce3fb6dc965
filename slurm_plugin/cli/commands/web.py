"""``nimo web``: serve read-only pages of applications, decisions and replays."""

import argparse
import os
import threading
import time
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from sacct_ingest.errors import NimoError, how_to_install
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.config.setting_types import Shown
from slurm_plugin.config.settings import Config
from slurm_plugin.doctor import Finding, Installation, nimo_checks
from slurm_plugin.nimod import client
from slurm_plugin.protocol.status_messages import Waits
from slurm_plugin.slurm import commands
from slurm_plugin.store_access import open_store, visibility_for

_ASK_S = 2.0
_PATIENCE_S = 0.25  #: for sums of many jobs; then the page says that it takes longer


def run(args: argparse.Namespace) -> int:
    """Serve."""
    try:
        import starlette  # noqa: F401, PLC0415
        import uvicorn  # noqa: F401, PLC0415
    except ImportError as error:
        raise NimoError(f"{error.name} is not installed; {how_to_install('web')}") from error
    config = load_config(args)
    if args.listen:
        config = replace(config, web=replace(config.web, listen=args.listen))
    open_store(config).close()
    _serve(config)
    return 0


def _serve(config: Config) -> None:
    from slurm_plugin.cli import waiting_jobs  # noqa: PLC0415
    from slurm_plugin.web import server  # noqa: PLC0415
    from slurm_plugin.web.app import application  # noqa: PLC0415
    from slurm_plugin.web.data import PageData, Service  # noqa: PLC0415
    from slurm_plugin.web.viewer import proxies_of  # noqa: PLC0415

    proxies = proxies_of(config.web)
    own = config.web.shows is Shown.OWN  # also where Slurm would show others' jobs
    site = PageData(
        config,
        partial(open_store, config),
        lambda user: visibility_for(config, user.uid, user.name, own_only=own),
        Service(
            partial(_checks, config),
            partial(_waits, config),
            partial(waiting_jobs.of_user, config.socket),
        ),
        patience_s=_PATIENCE_S,
        folder=_folder(),
    )
    with server.listening(config.web, proxies) as (channel, where):
        print(where, flush=True)
        threading.Thread(target=site.warm_up, name="warm-up", daemon=True).start()
        server.server(application(site, proxies), proxies).run(sockets=[channel])
    site.close()


def _folder() -> Path | None:
    """Folder that systemd gives the service (CacheDirectory)."""
    given = os.environ.get("CACHE_DIRECTORY", "")
    return Path(given.partition(":")[0]) if given else None


def _checks(config: Config) -> list[Finding]:
    """Look at nimod, the last ingest and the last fit, as ``nimo doctor`` does."""
    looked_at = Installation(config, None, partial(commands.run, timeout_s=_ASK_S), time.time())
    return [*nimo_checks.nimod(looked_at), *nimo_checks.learned(looked_at)]


def _waits(config: Config, user: str) -> Waits:
    try:
        return client.waits(config.socket, (), user=user, timeout_s=_ASK_S)
    except client.Unreachable as error:
        return Waits(error=str(error))
