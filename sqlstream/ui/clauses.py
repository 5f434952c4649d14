"""The SQL of a pipeline, planned again to know which clause of it each operator was made of."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlstream.planning import plan_file
from sqlstream.ui.catalogs import PlannedTables, names_catalogs
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.explain.graph import clauses_of

if TYPE_CHECKING:
    from sqlstream_operators.plan.spec import PhysicalPlan
    from sqlstream_planner.pipeline import Planned

#: What places in a text are said to be in.
FILE = "pipeline.sql"
_KEPT = 8


class Planner:
    """Plans texts one at a time, and remembers the last ones. No environment and no other file is to be had in them.

    Tables of catalogs are those of the plan that runs: no store is asked.
    """

    def __init__(self) -> None:
        self._planned: OrderedDict[tuple[str, str], Planned | DiagnosticError] = OrderedDict()
        self._lock = threading.Lock()

    def plan(
        self, text: str, running: PhysicalPlan | None, known_as: Mapping[str, str] | None = None
    ) -> Planned:
        """The plan of a text; `known_as` is `Catalog.moved`. Raises DiagnosticError with all that is wrong with it."""
        tables = PlannedTables.of(running) if names_catalogs(text) else PlannedTables()
        key = text, repr(tables)
        with self._lock:
            if known_as:
                return plan_file(text, file=FILE, moved=known_as, catalogs=tables.catalogs())
            if key not in self._planned:
                try:
                    self._planned[key] = plan_file(text, file=FILE, catalogs=tables.catalogs())
                except DiagnosticError as error:
                    self._planned[key] = error
                while len(self._planned) > _KEPT:
                    self._planned.popitem(last=False)
            self._planned.move_to_end(key)
            found = self._planned[key]
        if isinstance(found, DiagnosticError):
            raise DiagnosticError(*found.diagnostics, exit_code=found.exit_code)
        return found


def clauses(planned: Planned) -> dict[str, dict[str, Any]]:
    """By the id of a graph's node, the place of the clause in the file itself that it was made of."""
    return {node: dataclasses.asdict(at) for node, at in clauses_of(planned).items() if at.file == FILE}


def source_of(planner: Planner, text: str | None, running: PhysicalPlan | None) -> dict[str, Any]:
    """The text of a pipeline with its diagnostics and clauses; `text` is None where no run has kept it.

    It was planned when it ran: what its plan does not say of a catalog (a table that another is LIKE) is no mistake.
    """
    if text is None:
        return {"text": "", "diagnostics": [], "clauses": {}}
    try:
        planned = planner.plan(text, running)
    except DiagnosticError as error:
        if names_catalogs(text):
            return {"text": text, "diagnostics": [], "clauses": {}}
        return {"text": text, "diagnostics": [d.to_json() for d in error.diagnostics], "clauses": {}}
    return {
        "text": text,
        "diagnostics": [d.to_json() for d in planned.warnings],
        "clauses": clauses(planned),
    }
