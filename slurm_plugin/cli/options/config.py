"""Check the configuration and print all settings as YAML, with their defaults."""

from pathlib import Path

from slurm_plugin.cli.command_context import Options

EXAMPLE = "  nimo config\n  nimo config ./nimo.yaml\n  nimo config --check /etc/nimo/nimo.yaml"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("file FILE", "file to check instead of the configuration in use", nargs="?", type=Path)
    add.shared("config")
    add("--check", "print errors only")
