"""All that is known of the nodes of one plan: the analyses, each made once and handed to those that it depends on."""

from __future__ import annotations

from sqlstream_planner.properties.changelog import Changes
from sqlstream_planner.properties.consolidated import Consolidated
from sqlstream_planner.properties.constants import Constants
from sqlstream_planner.properties.timed_columns import TimedColumns
from sqlstream_planner.properties.unique_keys import UniqueKeys


class Facts:
    """The analyses of a plan; made once per plan and handed on, so that nothing is computed twice of a node."""

    __slots__ = ("changes", "consolidated", "constants", "keys", "timed")

    def __init__(self) -> None:
        self.changes = Changes()
        self.constants = Constants()
        self.timed = TimedColumns()
        self.keys = UniqueKeys(self.constants)
        self.consolidated = Consolidated(self.changes)
