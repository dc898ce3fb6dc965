"""Level."""
