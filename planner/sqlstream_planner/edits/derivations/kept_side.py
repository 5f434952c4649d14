"""A relation whose rows a state keeps whole by keys, as derivation rules see it: a side of a join, or an arrangement."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_operators.plan.arranged_spec import ROWS, ArrangeSpec
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.join_spec import JoinSideSpec, JoinSpec, gives_alone
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateField, StateTable
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.identity.form import Form, form

COUNT = form("how often")
SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class KeptSide:
    """The rows of one relation in a state: of the side `number` of the join `spec`, or of an arrangement."""

    state: Stored
    spec: JoinSpec | IntervalJoinSpec | ArrangeSpec
    number: int = 0

    @property
    def name(self) -> str:
        """The table."""
        return ROWS if isinstance(self.spec, ArrangeSpec) else SIDES[self.number]

    @property
    def side(self) -> JoinSideSpec:
        """The columns of the rows, and which of them are keys."""
        if isinstance(self.spec, ArrangeSpec):
            return self.spec.rows
        return (self.spec.left, self.spec.right)[self.number]

    @property
    def keys(self) -> Schema:
        """The keys."""
        return self.spec.keys

    @property
    def table(self) -> StateTable:
        """The table of the state."""
        return self.state.spec.state.table(self.name)

    @property
    def rows(self) -> Form:
        """The relation whose rows they are."""
        if isinstance(self.spec, ArrangeSpec):
            return self.state.rows
        rows = self.state.rows.args[self.number]
        assert isinstance(rows, Form)
        return rows

    @property
    def rows_can_go(self) -> bool:
        """Whether they do."""
        name = "rows can go" if isinstance(self.spec, ArrangeSpec) else f"{self.name} rows can go"
        return bool(self.state.attributes.get(name))

    @property
    def has_rows_without_key(self) -> bool:
        """Whether rows are kept that can't have a partner, as NULL is among their keys."""
        if isinstance(self.spec, ArrangeSpec):
            return self.spec.whole
        return gives_alone(self.spec.type, self.name)

    def by(self) -> dict[Form, StateField]:
        """The key fields by what they are of these rows."""
        by_name = {field.name: field for field in self.table.key}
        found = {}
        for key in self.keys:
            meaning = self.state.meaning(by_name[key.name])
            if meaning is not None:
                mine = meaning.args[self.number]
                assert isinstance(mine, Form)
                found[mine] = by_name[key.name]
        return found

    def equal(self) -> frozenset[tuple[Form, ...]]:
        """The keys by what is equal: of these rows, then of the other side's if there is one."""
        found = set()
        for field in self.table.key:
            meaning = self.state.meaning(field)
            if meaning is not None:
                sides = [form for form in meaning.args if isinstance(form, Form)]
                found.add(tuple(sides if self.number == 0 else reversed(sides)))
        return frozenset(found)

    def columns(self) -> dict[Form, StateField]:
        """The columns of the rows by what they mean, those among the keys included."""
        found = self.state.fields(self.table.value)
        found.pop(COUNT, None)
        by_name = {field.name: field for field in self.table.key}
        plain = {by_name[key.name].name for key, name in zip(self.keys, self.side.keys, strict=True) if name}
        for mine, field in self.by().items():
            if field.name in plain:
                found.setdefault(mine, field)
        return found
