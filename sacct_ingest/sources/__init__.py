"""Where histories come from: sacct itself, or its saved text."""
