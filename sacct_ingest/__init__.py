"""Facts: what ran on the cluster, read from its accounting and kept in an SQL store."""
