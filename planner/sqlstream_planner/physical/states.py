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
from sqlstream_planner.operator_plans.group_plan import GroupPlan
from sqlstream_planner.operator_plans.window_aggregates import AggregatePlan

_Keyed: TypeAlias = (
    GroupAggregateSpec
    | DistinctValuesSpec
    | TopNSpec
    | DeduplicateSpec
    | ChangelogNormalizeSpec
    | FirstRowSpec
)
_SpecT = TypeVar("_SpecT", bound=_Keyed)
_PlanT = TypeVar("_PlanT", AggregatePlan, GroupPlan)


class States:
    """The state schemas of the operators that are planned so far."""

    def __init__(self) -> None:
        self._schemas: dict[str, StateSchema] = {}

    @property
    def all(self) -> tuple[StateSchema, ...]:
        """Every state, in the order in which they were added."""
        return tuple(self._schemas.values())

    def disambiguated(self, plan: _PlanT) -> _PlanT:
        """The plan with a state id of its own: two aggregates over the same groups need two states."""
        if plan.spec.state.state_id not in self._schemas:
            return plan
        return plan.with_state_id(self._free_id(plan.distinguishing_state_id))

    def add(self, state: StateSchema) -> StateSchema:
        """Add a state, under an id that no other has."""
        state = replace(state, state_id=self._free_id(state.state_id))
        self._schemas[state.state_id] = state
        return state

    def keep(self, spec: _SpecT, ttl_us: int | None) -> _SpecT:
        """The spec with a state of its own, which is added, and, where that has keys, its time to live in µs."""
        state = self.add(spec.state)
        if ttl_us is None or not state.tables[0].key:
            return replace(spec, state=state)
        state = with_ttl(state)
        self._schemas[state.state_id] = state
        return replace(spec, state=state, ttl_us=ttl_us)

    def _free_id(self, state_id: str) -> str:
        """The id, with a number behind it where a state has it."""
        wanted, number = state_id, 1
        while wanted in self._schemas:
            number += 1
            wanted = f"{state_id}-{number}"
        return wanted
