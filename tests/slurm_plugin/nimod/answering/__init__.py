"""The process that answers what takes long."""
