"""Where the statements of the prompt are kept, and which of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sqlstream_planner.text.masking import masked_source


def history_file(env: Mapping[str, str]) -> Path:
    """`sqlstream/sql_history` in the user's folder of state ($XDG_STATE_HOME, else ~/.local/state)."""
    state = env.get("XDG_STATE_HOME", "")
    # As the base directory specification has it, a relative path counts as none.
    base = Path(state) if state.startswith("/") else Path(env.get("HOME") or Path.home()) / ".local/state"
    return base / "sqlstream/sql_history"


def prepared(file: Path) -> bool:
    """Make the file where it is not there, for its user alone; False if it can't be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.fchmod(handle, 0o600)
        os.close(handle)
    except OSError:
        return False
    return True


def may_be_kept(statement: str) -> bool:
    """Whether a statement has no password.

    >>> may_be_kept("SELECT 1"), may_be_kept("CREATE TABLE t (a INT) WITH ('password' = 'abc')")
    (True, False)
    """
    return masked_source(statement) == statement
