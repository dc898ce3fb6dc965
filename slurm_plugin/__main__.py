"""``python -m slurm_plugin``: the command ``nimo``."""

import sys

from slurm_plugin.cli.nimo import main

sys.exit(main())
