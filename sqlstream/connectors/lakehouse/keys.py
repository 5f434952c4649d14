"""Which keys a table in a lake can have."""

from __future__ import annotations

from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import NESTED
from sqlstream_planner.diagnostics import Diagnostic


def nested_key(sink: SinkSpec, what: str) -> Diagnostic | None:
    """What is wrong with the key of a sink; None: nothing is. `what` it is, for the message."""
    key = {name.lower() for name in sink.primary_key}
    nested = next((c for c in sink.schema if c.name.lower() in key and c.type.kind in NESTED), None)
    if nested is None:
        return None
    return Diagnostic(
        "SQL053",
        f"{what} has no PRIMARY KEY over a column of type {nested.type} (`{nested.name}`)",
        help="CAST it to VARCHAR, or choose another key",
    )
