"""Models of run time over nodes: one file or folder each, registered by name."""
