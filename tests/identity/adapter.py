"""The one place where these tests ask the planner what state means."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlstream.planning import plan_file
from sqlstream_planner.catalog import source_identity as source
from sqlstream_planner.identity import expression, state

#: The versions of the form in which identities are stored; goldens of one version never change.
FORM_VERSION = (state.VERSION, source.VERSION, expression.FORM_VERSION)


@dataclass(frozen=True, order=True)
class State:
    """A state of a plan: its operator, and a text that is equal for another where it can be used as it is."""

    operator: str
    identity: str


def identities(text: str) -> list[State]:
    """The states of a pipeline, in an order that only their identities decide."""
    states = plan_file(text, file="pipeline.sql").physical.states
    return sorted(State(one.operator, f"{one.state_id} {one.schema_id}") for one in states)


def stored_identities(text: str) -> list[Any]:
    """The states' identities as they are stored with a manifest: plain data."""
    return [json.loads(one.identity) for one in plan_file(text, file="pipeline.sql").physical.states]
