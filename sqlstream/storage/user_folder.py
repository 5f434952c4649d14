"""The temporary folder of this user: caches of state, and what a run needs while it runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def user_directory() -> Path:
    """Where this user's caches and temporary folders are on this machine."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    return Path(tempfile.gettempdir()) / f"sqlstream-{user}"
