"""How long a job takes as it was asked for: experts, their backtest, record and calibration."""
