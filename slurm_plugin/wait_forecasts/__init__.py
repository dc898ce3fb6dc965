"""Wait forecasts."""
