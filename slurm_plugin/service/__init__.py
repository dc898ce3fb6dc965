"""What long-running processes need: a Unix socket of their own, and word to systemd."""
