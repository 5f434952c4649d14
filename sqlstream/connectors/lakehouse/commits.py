"""A commit to a table's log beside others who commit to it, too."""

from __future__ import annotations

from collections.abc import Callable

#: How often a commit is made again at once because others have committed meanwhile.
_REPEATED = 8


def beside_others(work: Callable[[], None], refused: type[Exception]) -> None:
    """Do what looks at the log and commits to it, again while it is `refused` as somebody else has committed meanwhile."""
    for left in reversed(range(_REPEATED)):
        try:
            work()
        except refused:
            if not left:
                raise  # it is tried again, with pauses
        else:
            return
