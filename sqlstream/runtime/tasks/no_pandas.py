"""Arrow without pandas, in a process of ours.

Arrow asks for pandas as soon as it sees a numpy array, which takes as long as all other imports of a task. No task of ours
uses pandas, so it is hidden from Arrow.
"""

from __future__ import annotations

import sys


class _NoPandas:
    """A finder of modules that says that pandas is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def hide_pandas_from_arrow() -> None:
    """Let Arrow look for pandas, and find none; to be called before modules of ours make arrays.

    It looks twice: at the first array of numpy's, and at the first list. Not for a process that others use, too.
    """
    import numpy as np
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array(np.zeros(1))
        pa.array(["a"])
    finally:
        sys.meta_path.remove(finder)
