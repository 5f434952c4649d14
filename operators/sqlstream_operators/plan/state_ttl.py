"""The tables of a state with a time to live, as plain data. Importable without Arrow."""

from __future__ import annotations

from dataclasses import replace

from .state_schema import StateField, StateSchema, StateTable
from .types import BIGINT

TOUCHED = "touched"
"""Table of a state with a time to live: when a key was last touched, µs."""

EXPIRY = "expiry"
"""Table of a state with a time to live: the keys by that time."""

AT = "$at"
"""The column of `TOUCHED` with the time."""

_SECOND = 1_000_000


def granularity_us(ttl_us: int) -> int:
    """How finely the times of a state with this time to live are kept, µs.

    >>> granularity_us(3_600_000_000), granularity_us(10_000_000)
    (56250000, 1000000)
    """
    return max(ttl_us // 64, _SECOND)


def with_ttl(state: StateSchema) -> StateSchema:
    """The state with the tables that a time to live needs; the keys are those of its first table."""
    key = state.tables[0].key
    touched = StateTable(TOUCHED, "key", key, value=(StateField(AT, BIGINT, "at"),))
    return replace(state, tables=(*state.tables, touched, StateTable(EXPIRY, "time", key)))
