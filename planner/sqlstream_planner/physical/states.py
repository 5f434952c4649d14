"""The states that a plan's operators keep, each under an id of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, TypeVar

from sqlstream_operators.plan.changelog_spec import (
    ChangelogNormalizeSpec,
    DeduplicateSpec,
    DistinctValuesSpec,
    FirstRowSpec,
    GroupAggregateSpec,
    TopNSpec,
)
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.plan.state_ttl import with_ttl

_Keyed: TypeAlias = (
    GroupAggregateSpec
    | DistinctValuesSpec
    | TopNSpec
    | DeduplicateSpec
    | ChangelogNormalizeSpec
    | FirstRowSpec
)
_SpecT = TypeVar("_SpecT", bound=_Keyed)


class States:
    """The state schemas of the operators that are planned so far."""

    def __init__(self) -> None:
        self._schemas: dict[str, StateSchema] = {}

    @property
    def all(self) -> tuple[StateSchema, ...]:
        """Every state, in the order in which they were added."""
        return tuple(self._schemas.values())

    def add(self, state: StateSchema) -> StateSchema:
        """Add a state, under an id that no other has.

        Two operators whose states mean the same were written in two ways: which of them gets which number behind the
        id makes no difference, since both keep the same.
        """
        wanted, number = state.state_id, 1
        while wanted in self._schemas:
            number += 1
            wanted = f"{state.state_id}-{number}"
        self._schemas[wanted] = replace(state, state_id=wanted)
        return self._schemas[wanted]

    def keep(self, spec: _SpecT, ttl_us: int | None) -> _SpecT:
        """The spec with its state, which is added, and, where that has keys, its time to live in µs."""
        state = self.add(spec.state)
        if ttl_us is None or not state.tables[0].key:
            return replace(spec, state=state)
        state = with_ttl(state)
        self._schemas[state.state_id] = state
        return replace(spec, state=state, ttl_us=ttl_us)
