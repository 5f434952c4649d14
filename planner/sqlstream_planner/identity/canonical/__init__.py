"""Which forms mean the same though they are written in other words: COUNT(1) and COUNT(*), v > 4 and v >= 5 of integers.

Identities are stored as they were written (`identity/expression`, `identity/relation`), and that never changes. Where two
of them are compared, both first get one spelling here. So what is known to be the same may grow with any
version, and states of former versions are still found. Canonical forms are never stored and name nothing.
"""

from __future__ import annotations

from sqlstream_planner.identity.canonical.canonical import Canonical
from sqlstream_planner.identity.canonical.conditions import null_rejecting
from sqlstream_planner.identity.canonical.meanings import CanonicalMeanings

__all__ = ["Canonical", "CanonicalMeanings", "null_rejecting"]
