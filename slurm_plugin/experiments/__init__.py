"""The papers' commands that few sites need: learn, plan, probe, forecast, transfer, profile."""
