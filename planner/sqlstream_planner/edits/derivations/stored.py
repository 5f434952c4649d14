"""A state as derivation rules see it: its fields by what they mean, and the rows and keys that it is of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlstream_operators.plan.spec import OperatorSpec
from sqlstream_operators.plan.state_schema import StateField, StateTable
from sqlstream_planner.identity.form import Data, Form, walk
from sqlstream_planner.identity.stored_identity import read_identity


@dataclass(frozen=True, slots=True)
class Stored:
    """A state with its identity: `operator` is what is kept ("groups" …), `rows` the relation that it is kept of.

    `by_digest` has every form in the identity, `attributes` what is compared apart from rows and keys. `retyped` are forms
    of which types were left out: what means the same may have another type. `forgetful`: it has forgotten keys, by its
    time to live; their rows are in nothing that is derived from it.
    """

    spec: OperatorSpec
    operator: str
    rows: Form
    attributes: Mapping[str, Data]
    by_digest: Mapping[str, Form]
    retyped: frozenset[Form] = frozenset()
    forgetful: bool = False

    @property
    def state_id(self) -> str:
        """The id of the state."""
        return self.spec.state.state_id

    def table(self, name: str) -> StateTable | None:
        """The table called `name`, if there is one."""
        return next((t for t in self.spec.state.tables if t.name == name), None)

    def meaning(self, field: StateField) -> Form | None:
        """What a field means; None if the identity does not say."""
        # Before the digest may stand a rank, behind it a number.
        return next((self.by_digest[w] for w in field.fingerprint.split() if w in self.by_digest), None)

    def differs(self, other: Stored, free: frozenset[str]) -> bool:
        """Whether an attribute differs that is not `free` to."""
        names = (self.attributes.keys() | other.attributes.keys()) - free
        return any(self.attributes.get(name) != other.attributes.get(name) for name in names)

    def keys(self) -> dict[Form, StateField]:
        """The key fields of its first table by what they mean."""
        return self.fields(self.spec.state.tables[0].key)

    def distinct_values(self) -> dict[Form, StateField]:
        """Those of the keys that are values which are kept once each."""
        return {m: f for m, f in self.keys().items() if m.op == "distinct value"}

    def fields(self, fields: Sequence[StateField]) -> dict[Form, StateField]:
        """Some fields by what they mean; of several that mean the same, the first."""
        found: dict[Form, StateField] = {}
        for field in fields:
            meaning = self.meaning(field)
            if meaning is not None:
                found.setdefault(meaning, field)
        return found


def stored(spec: OperatorSpec, *, forgetful: bool = False) -> Stored | None:
    """The state of an operator; None if no identity was kept with it, or one of another version."""
    if not spec.state.identity:
        return None
    identity = read_identity(spec.state.identity)
    rows = identity.roots["rows"]
    assert isinstance(rows, Form)
    by_digest = {f.digest: f for f in walk(*_forms(identity.roots))}
    return Stored(spec, identity.operator, rows, identity.attributes, by_digest, forgetful=forgetful)


def _forms(data: Data) -> Iterator[Form]:
    match data:
        case Form():
            yield data
        case None | str() | int():
            return
        case Mapping():
            for value in data.values():
                yield from _forms(value)
        case _:
            for value in data:
                yield from _forms(value)


@dataclass(frozen=True, slots=True)
class Grouped:
    """The rows of groups: of `input` the groups `sets`, given when `given` says."""

    base: Form
    conditions: frozenset[Form]
    sets: tuple[Form, ...]
    given: tuple[Form, ...]


def grouped(rows: Form) -> Grouped | None:
    """The parts of the form of a GROUP BY's rows; None if it is something else."""
    if rows.op != "groups":
        return None
    inside, *rest = (a for a in rows.args if isinstance(a, Form))
    base, conditions = filtered(inside)
    return Grouped(
        base,
        conditions,
        tuple(f for f in rest if f.op == "set"),
        tuple(f for f in rest if f.op != "set"),
    )


def filtered(rows: Form) -> tuple[Form, frozenset[Form]]:
    """The rows of a relation before its conditions, and these."""
    if rows.op != "filter":
        return rows, frozenset()
    base, *conditions = (a for a in rows.args if isinstance(a, Form))
    return base, frozenset(conditions)
