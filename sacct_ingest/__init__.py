"""Facts: what ran on the cluster, read from its accounting into an SQL store."""
