"""What readers of catalogs share: what they are called in messages, and the error for a store that can't be asked."""

from __future__ import annotations

from sqlstream.connectors.exactly_once.target import unusable
from sqlstream_planner.diagnostics import DiagnosticError

_INSTEAD = "correct its options, or run again when it answers; tables that CREATE TABLE declares can be planned without it"


def location_of(name: str, where: str) -> str:
    """A catalog in messages; `where` has no password."""
    return f"catalog `{name}` ({where})"


def away(location: str, why: str) -> DiagnosticError:
    """The error (ENV006) for a catalog that can't be asked."""
    return unusable(location, why, _INSTEAD, done="read")
