"""From one type of node to another: recognition, ratios of run times, and aprof's sums."""
