"""What an edited text would do to a state: shown, never carried out."""

from __future__ import annotations

import threading
from typing import Any

from sqlstream.runtime.run.planned_edit import planned_edit
from sqlstream.runtime.run.request import RunRequest
from sqlstream.storage.run_status import read_status
from sqlstream.ui.clauses import Planner, clauses
from sqlstream.ui.pipelines import Pipeline
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.explain.graph import graph_of

#: Longer texts are refused.
MOST_CHARACTERS = 1_000_000
_ONE_AT_A_TIME = threading.Lock()


def plan_of_edit(pipeline: Pipeline, planner: Planner, text: str) -> dict[str, Any]:
    """The plan of going on with `text`, with the graph of what would run; or the diagnostics of what is wrong with it."""
    try:
        manifest = pipeline.last()
        running = pipeline.begun()[0] if manifest is None else pipeline.plan(manifest)
        planned = planner.plan(text, running)
        status = read_status(pipeline.store)
        request = RunRequest(
            planned.physical,
            state_dir=pipeline.store.uri,
            secrets=planned.secrets,
            base_dir=(status.base_dir if status is not None else "") or ".",
        )
        with _ONE_AT_A_TIME:
            made = planned_edit(
                planned,
                request,
                own=True,
                tables=(),
                again=lambda known_as: planner.plan(text, running, known_as),
            )
    except DiagnosticError as error:
        return {"ok": False, "diagnostics": [d.to_json() for d in error.diagnostics]}
    graph = graph_of(planned.physical)
    places = clauses(planned)
    verdicts = {f"op:{state.name}": state.shown_verdict for state in made.states if state.edit.new}
    return {
        "ok": True,
        "diagnostics": [d.to_json() for d in (*planned.warnings, *made.warnings)],
        "plan": made.to_json(),
        "nodes": [
            {**node.to_json(), "clause": places.get(node.id), "verdict": verdicts.get(node.id)}
            for node in graph.nodes
        ],
        "edges": [edge.to_json() for edge in graph.edges],
    }
