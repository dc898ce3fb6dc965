"""Packages for Linux distributions: `make deb`, `make rpm`."""
