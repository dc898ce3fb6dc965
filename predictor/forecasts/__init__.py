"""Forecasts of measured series: the Network Weather Service's bank, and AdRM's transfers."""
