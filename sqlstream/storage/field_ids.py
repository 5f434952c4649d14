"""Ids of stored fields that are never used again, so that what is in the state is known whatever a query calls it.

As in Iceberg's schemas: a field keeps its id as long as it is kept with the same meaning and type, a new one gets the
next id of the state directory, and that of a field which is gone is not given again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sqlstream_operators.plan.plain_data import PlainRow
from sqlstream_operators.plan.state_schema import StateSchema


@dataclass(frozen=True, slots=True)
class StoredField(PlainRow):
    """One field of a table of a state: its id, which part of the rows it is in (`key`, `sub_key`, `value`), what it means
    (the field's fingerprint) and its SQL type.
    """

    id: int
    table: str
    part: str
    meaning: str
    type: str


@dataclass(frozen=True, slots=True)
class FieldIds:
    """The stored fields of each state, and the greatest id that was ever given in the state directory."""

    fields: Mapping[str, tuple[StoredField, ...]]
    last: int = 0

    def after(
        self, states: Iterable[StateSchema], came_from: Mapping[str, str] = MappingProxyType({})
    ) -> FieldIds:
        """The fields of these states: those that are here with their ids, the others with new ones.

        `came_from` says of a state under which id it is here, if that is another.

        >>> from sqlstream_operators.plan.state_schema import StateField, StateTable
        >>> from sqlstream_operators.plan.types import BIGINT
        >>> def state(*meanings):
        ...     fields = [StateField(meaning, BIGINT, meaning) for meaning in meanings]
        ...     return StateSchema("s", "o", "d", (StateTable.of("t", "key", value=fields),))
        >>> one = FieldIds({}).after([state("a", "b")])
        >>> two = one.after([state("a")]).after([state("a", "b")])
        >>> [(f.meaning, f.id) for f in two.fields["s"]], two.last
        ([('a', 1), ('b', 3)], 3)
        """
        last = self.last
        found: dict[str, tuple[StoredField, ...]] = {}
        for state in states:
            known = {
                (f.table, f.part, f.meaning, f.type): f
                for f in self._known(came_from.get(state.state_id, ""), state.state_id)
            }
            kept = []
            for key in _described(state):
                if key not in known:
                    last += 1
                    known[key] = StoredField(last, *key)
                kept.append(known[key])
            found[state.state_id] = tuple(kept)
        return FieldIds(found, last)

    def _known(self, former: str, id_: str) -> tuple[StoredField, ...]:
        return self.fields.get(id_) or self.fields.get(former, ())


def _described(state: StateSchema) -> Iterable[tuple[str, str, str, str]]:
    for table in state.tables:
        for part, fields in (("key", table.key), ("sub_key", table.sub_key), ("value", table.value)):
            for field in fields:
                yield table.name, part, field.fingerprint, str(field.type)
