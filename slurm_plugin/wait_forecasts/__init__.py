"""Waits of the cluster's queue, forecast in the background for nimod and for pages."""
