"""Who runs this process.  Imports nothing heavy."""

import os
import pwd


def user_name() -> str:
    """Name of the user whose process this is; the number where there is no name (containers)."""
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
