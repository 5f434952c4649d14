"""The states that a plan's operators keep, each under an id of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from sqlstream_operators.plan.operator_spec import Forgets
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.plan.state_ttl import with_ttl

_SpecT = TypeVar("_SpecT", bound=Forgets)


class States:
    """The state schemas of the operators that are planned so far.

    How long a state is kept is no part of its id, so that it may be changed. Where two operators of one plan differ in
    nothing else, at them or below, they are `ambiguous`, and must be planned with `ttl_in_ids`: which of them came first
    in the file must not decide which state is whose.
    """

    def __init__(self, *, ttl_in_ids: bool = False) -> None:
        self._schemas: dict[str, StateSchema] = {}
        self._ttls: dict[str, str] = {}
        self._ttl_in_ids = ttl_in_ids
        self.ambiguous = False

    @property
    def all(self) -> tuple[StateSchema, ...]:
        """Every state, in the order in which they were added."""
        return tuple(self._schemas.values())

    def add(self, state: StateSchema, ttls: str) -> StateSchema:
        """Add a state, under an id that no other has; `ttls` distinguishes times to live, '' where nothing forgets.

        Two operators whose states mean the same were written in two ways: which of them gets which number behind the
        id makes no difference, since both keep the same.
        """
        id_ = f"{state.state_id}-{ttls}" if self._ttl_in_ids and ttls else state.state_id
        wanted, number = id_, 1
        while wanted in self._schemas:
            number += 1
            wanted = f"{id_}-{number}"
        self.ambiguous |= self._ttls.setdefault(id_, ttls) != ttls
        self._schemas[wanted] = replace(state, state_id=wanted)
        return self._schemas[wanted]

    def keep(self, spec: _SpecT, ttl_us: int | None, ttls: str) -> _SpecT:
        """The spec with its state, which is added, and, where that has keys, its time to live in µs."""
        if ttl_us is None or not spec.state.tables[0].key:
            return spec.keeping(self.add(spec.state, ttls))
        state = with_ttl(self.add(spec.state, ttls))
        self._schemas[state.state_id] = state
        return spec.keeping(state).living(ttl_us)
