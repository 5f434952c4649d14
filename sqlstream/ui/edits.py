"""What an edited text would do to a state: shown, never carried out."""

from __future__ import annotations

import threading
from typing import Any

from sqlstream.runtime.run.planned_edit import planned_edit
from sqlstream.runtime.run.request import RunRequest
from sqlstream.storage.run_status import read_status
from sqlstream.ui.clauses import Planner, clauses
from sqlstream.ui.graph import graph_of
from sqlstream.ui.pipelines import Pipeline
from sqlstream_planner.diagnostics import DiagnosticError

#: Longer texts are refused.
MOST_CHARACTERS = 1_000_000
_ONE_AT_A_TIME = threading.Lock()


def plan_of_edit(pipeline: Pipeline, planner: Planner, text: str) -> dict[str, Any]:
    """The plan of going on with `text`, with the graph of what would run; or the diagnostics of what is wrong with it."""
    try:
        planned = planner.plan(text)
        status = read_status(pipeline.store)
        request = RunRequest(
            planned.physical,
            state_dir=pipeline.store.uri,
            secrets=planned.secrets,
            base_dir=(status.base_dir if status is not None else "") or ".",
        )
        with _ONE_AT_A_TIME:
            made = planned_edit(
                planned, request, own=True, tables=(), again=lambda known_as: planner.plan(text, known_as)
            )
    except DiagnosticError as error:
        return {"ok": False, "diagnostics": [d.to_json() for d in error.diagnostics]}
    graph = graph_of(planned.physical)
    places = clauses(planned)
    verdicts = {f"op:{state.name}": _verdict(state.to_json()) for state in made.states if state.edit.new}
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


def _verdict(state: dict[str, Any]) -> str:
    """The verdict that the graph shows: of a state that is kept but for some fields, what becomes of these."""
    found = {field["verdict"] for field in state["fields"]} | {state["verdict"]}
    order = ("BACKFILL", "FRESH", "ADAPT", "KEEP")
    return next((verdict for verdict in order if verdict in found), str(state["verdict"]))
