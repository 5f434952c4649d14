"""The state of a pipeline as relations."""

from __future__ import annotations

from typing import Any

from sqlstream.state.relations import Relation, relations_of
from sqlstream.ui.pipelines import Pipeline


def relations(pipeline: Pipeline) -> list[dict[str, Any]]:
    """What can be selected from, with the operator's step that each is of."""
    manifest = pipeline.last()
    if manifest is None:
        return []
    return [_relation(one) for one in relations_of(pipeline.plan(manifest))]


def _relation(relation: Relation) -> dict[str, Any]:
    return {
        "name": str(relation),
        "node": f"op:{relation.step}",
        "kind": relation.kind,
        "key": list(relation.key.values()),
        "columns": [
            {
                "name": c.name,
                "type": str(c.type),
                "part": c.part,
                "meaning": c.meaning,
                "numeric": c.type.is_numeric,
            }
            for c in relation.columns
        ],
    }
