"""The states that a step reads and does not write."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.state.store import StateStore

from .io import Stores


class OpenedStates(Sequence[StateStore]):
    """States as they were before the epoch, each opened when it is first read, until `stack` is left."""

    def __init__(self, stores: Stores, schemas: Sequence[StateSchema], stack: ExitStack) -> None:
        self._stores = stores
        self._schemas = schemas
        self._stack = stack
        self._open: dict[str, StateStore] = {}

    def __len__(self) -> int:
        return len(self._schemas)

    def __getitem__(self, number: Any) -> Any:
        schema = self._schemas[number]
        if schema.state_id not in self._open:
            self._open[schema.state_id] = self._stack.enter_context(self._stores(schema))
        return self._open[schema.state_id]
