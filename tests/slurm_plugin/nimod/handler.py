"""What answers nimod's request lines, without the process around it."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from sacct_ingest.records import DecisionRow
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.nimod.access import UserNames
from slurm_plugin.nimod.queries import StoreQueries
from slurm_plugin.nimod.request_handler import RequestHandler
from slurm_plugin.protocol.status_messages import Status
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.wait_forecasts.forecasts import Outlooks
from slurm_plugin.wait_forecasts.run_times import QueueRunTimes


class Handler(RequestHandler):
    """As nimod makes it, with its parts at hand: ``service``, ``outlooks``,
    ``poller``, ``names``."""

    def __init__(
        self,
        folder: Path,
        config: Config | None = None,
        *,
        names: Mapping[int, str] = MappingProxyType({}),
        record: Callable[[DecisionRow], None] = lambda _: None,
    ) -> None:
        config = config or Config(store=f"sqlite:///{folder}/nimo.db")
        self.service = DecisionService(config, new_id=lambda: "0" * 12)
        self.outlooks = Outlooks(QueueRunTimes(lambda: self.service.tables))
        self.poller = ClusterPoller(time.time)
        self.names = UserNames(own=names)
        super().__init__(
            self.service,
            poller=self.poller,
            outlooks=self.outlooks,
            queries=StoreQueries(config.store_url, lambda: config.fit.confidence),
            reports=StoreQueries(config.store_url, lambda: config.fit.confidence),
            names=self.names,
            trusted=frozenset({0}),
            requests_per_s=config.access.requests_per_s,
            record=record,
            status=lambda: Status(waits=self.outlooks.partition_waits()),
            reload=lambda: None,
        )
