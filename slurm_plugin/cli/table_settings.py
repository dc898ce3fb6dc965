"""Settings of prediction tables, as the site's configuration has them."""

from typing import TYPE_CHECKING

from slurm_plugin.config.settings import Config

if TYPE_CHECKING:  # heavy
    from predictor.tables.settings import TableSettings


def table_settings(config: Config) -> "TableSettings":
    """Give the settings of prediction tables."""
    from predictor.level.calibration import BacktestSettings  # noqa: PLC0415
    from predictor.tables.settings import TableSettings  # noqa: PLC0415

    return TableSettings(
        confidence=config.fit.confidence,
        backtest=BacktestSettings(model=config.fit.model),
        memory_margin=config.policy.memory_margin,
        tails=(config.time_limit.min_quantile, config.time_limit.quantile),
    )
